// Tests of streams that end before both sides have sent all. Whatever client
// and handler do at that moment, both are told of the end.

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/streaming_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/testing/child_process.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"

namespace verbena::end_to_end {
namespace {

using ::testing::HasSubstr;
using testing_support::ChildProcess;
using testing_support::WordAfter;

void Read(ChatStream& stream) {
  Item item;
  while (stream.Read(&item)) {
  }
}

void Write(ChatStream& stream) {
  const Item item = NewItem(1, 10000);
  while (stream.Write(item)) {
  }
}

struct ClientAct {
  const char* name;
  // Returns when the call has ended, or before it.
  void (*run)(ChatStream& stream);
};

constexpr ClientAct kClientActs[] = {
    {"DoesNothing", [](ChatStream&) {}},
    {"Reads", Read},
    {"Writes", Write},
    {"ReadsAfterItsLastMessage",
     [](ChatStream& stream) {
       stream.WritesDone();
       Read(stream);
     }},
    {"ReadsAndWrites",
     [](ChatStream& stream) {
       std::thread writer([&stream] { Write(stream); });
       Read(stream);
       writer.join();
     }},
};

struct HandlerAct {
  const char* name;
  // Returns when the client has sent all, or the call has ended, or before it.
  void (*run)(ServerReaderWriter<Item, Item>* stream);
};

constexpr HandlerAct kHandlerActs[] = {
    {"Waits", [](ServerReaderWriter<Item, Item>*) {}},
    {"Reads",
     [](ServerReaderWriter<Item, Item>* stream) {
       Item item;
       while (stream->Read(&item)) {
       }
     }},
    {"Writes",
     [](ServerReaderWriter<Item, Item>* stream) {
       const Item item = NewItem(1, 10000);
       while (stream->Write(item)) {
       }
     }},
};

void AwaitCancelled(const ServerContext& context) {
  base::Mutex mutex;
  base::CondVar never;
  const base::MutexLock lock(mutex);
  // Polls IsCancelled() rather than using stop_token().
  while (!context.IsCancelled()) {
    never.WaitUntil(mutex, base::Now() + absl::Milliseconds(1));
  }
}

// A Chat handler that stays until its call is cancelled.
class StayingHandler {
 public:
  explicit StayingHandler(TestStreams* streams,
                          HandlerAct act = kHandlerActs[0])
      : act_(act) {
    streams->set_chat([this](ServerContext* context, auto* stream) {
      reached_ = true;
      running_.Done();
      act_.run(stream);
      AwaitCancelled(*context);
      // Messages that have come may still be read, but then Read() fails.
      Item item;
      while (stream->Read(&item)) {
      }
      // The deadline may have cancelled the context before the CANCEL comes.
      while (stream->Write(Item())) {
      }
      left_.Done();
      return absl::OkStatus();
    });
  }

  void AwaitRunning() { running_.Wait(); }
  void AwaitLeft() { left_.Wait(); }
  bool reached() const { return reached_; }

 private:
  const HandlerAct act_;
  std::atomic<bool> reached_{false};
  Countdown running_{1};
  Countdown left_{1};
};

class StreamingEndsTest : public StreamingTest {
 protected:
  void ExpectAllIsWell() {
    const auto unary = EndToEnd::NewStub(channel_);
    EXPECT_EQ(EchoProblem(*unary, 100, 1), "");
    EXPECT_EQ(EchoProblem(*unary, 100000, 1), "");
  }
};

class StreamingEndsEachTest
    : public StreamingEndsTest,
      public ::testing::WithParamInterface<std::tuple<ClientAct, HandlerAct>> {
 protected:
  ClientAct client() const { return std::get<0>(GetParam()); }
  HandlerAct handler_act() const { return std::get<1>(GetParam()); }
};

std::string NameOf(
    const ::testing::TestParamInfo<std::tuple<ClientAct, HandlerAct>>& info) {
  return std::string("ClientThat") + std::get<0>(info.param).name +
         "HandlerThat" + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Each, StreamingEndsEachTest,
                         ::testing::Combine(::testing::ValuesIn(kClientActs),
                                            ::testing::ValuesIn(kHandlerActs)),
                         NameOf);

TEST_P(StreamingEndsEachTest, ByCancellation) {
  Serve();
  StayingHandler handler(&streams(), handler_act());
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  std::thread canceller([&] {
    handler.AwaitRunning();
    context.TryCancel();
  });
  client().run(*stream);
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kCancelled);
  canceller.join();
  handler.AwaitLeft();
  ExpectAllIsWell();
}

TEST_P(StreamingEndsEachTest, ByItsDeadline) {
  Serve();
  for (absl::Duration timeout = absl::Milliseconds(20);; timeout *= 2) {
    StayingHandler handler(&streams(), handler_act());
    ClientContext context;
    context.set_timeout(timeout);
    const auto stream = stub_->Chat(&context);
    client().run(*stream);
    const absl::Status status = stream->Finish();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_GE(absl::Now(), context.deadline());
    ExpectAllIsWell();
    // A busy machine may not have come to the handler. If it comes later, this
    // one waits for it.
    if (handler.reached()) {
      handler.AwaitLeft();
      return;
    }
    StopServer();
    stub_.reset();
    channel_.reset();
    Serve();
  }
}

TEST_P(StreamingEndsEachTest, ByTheEndOfTheServersPatience) {
  Serve();
  StayingHandler handler(&streams(), handler_act());
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  std::thread shutdown([&] {
    handler.AwaitRunning();
    server().Shutdown(absl::Now() + absl::Milliseconds(20));
  });
  client().run(*stream);
  const absl::Status status = stream->Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  handler.AwaitLeft();
  shutdown.join();
}

// The handler has no time to do anything.
class StreamingEndsForClientTest
    : public StreamingEndsTest,
      public ::testing::WithParamInterface<ClientAct> {};

INSTANTIATE_TEST_SUITE_P(Each, StreamingEndsForClientTest,
                         ::testing::ValuesIn(kClientActs),
                         [](const auto& info) {
                           return std::string("ThatClient") + info.param.name;
                         });

TEST_P(StreamingEndsForClientTest, ByTheHandlersError) {
  Serve();
  streams().set_chat([](ServerContext* context, auto* stream) {
    EXPECT_TRUE(stream->Write(NewItem(1)));
    context->AddTrailingMetadata("ended", "early");
    return absl::OutOfRangeError("enough");
  });
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  GetParam().run(*stream);
  EXPECT_EQ(stream->Finish(), absl::OutOfRangeError("enough"));
  EXPECT_EQ(context.GetServerTrailingMetadata().find("ended")->second, "early");
  EXPECT_FALSE(stream->Write(NewItem(2)));
  ExpectAllIsWell();
}

TEST_P(StreamingEndsForClientTest, ByAHandlerThatHasSaidAll) {
  Serve();
  streams().set_chat([](ServerContext*, auto*) { return absl::OkStatus(); });
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  GetParam().run(*stream);
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
  ExpectAllIsWell();
}

TEST_P(StreamingEndsForClientTest, ByAHandlerThatThrows) {
  Serve();
  streams().set_chat([](ServerContext*, auto* stream) -> absl::Status {
    stream->Write(NewItem(1));
    throw 17;
  });
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  GetParam().run(*stream);
  const absl::Status status = stream->Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnknown) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("threw an exception"));
  ExpectAllIsWell();
}

TEST_P(StreamingEndsForClientTest, ByTheDeathOfTheServer) {
  ChildProcess process({EndToEndServerPath(), "--listen=" + Address(0)});
  const std::string target = WordAfter("listening on ", process.ReadLine());
  const auto stub = StreamService::NewStub(CreateChannel(target));
  ClientContext context;
  const auto stream = stub->Chat(&context);
  ASSERT_TRUE(Echoes(*stream, NewItem(1, 10)));
  // The server answers nothing any more, but its connection still stands.
  process.Stop();
  std::thread killer([&process] { process.Signal(SIGKILL); });
  GetParam().run(*stream);
  const absl::Status status = stream->Finish();
  killer.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(target));
  EXPECT_EQ(process.Wait(), -SIGKILL);
  // A new server at the same address serves the client as usual.
  ChildProcess next({EndToEndServerPath(), "--listen=" + target});
  next.ReadLine();
  ClientContext patient;
  patient.set_wait_for_ready(true);
  const auto again = stub->Chat(&patient);
  EXPECT_TRUE(Echoes(*again, NewItem(2, 100000)));
  EXPECT_TRUE(again->WritesDone());
  EXPECT_EQ(again->Finish(), absl::OkStatus());
}

TEST_P(StreamingEndsForClientTest, BeforeItHasBegun) {
  Serve();
  StayingHandler handler(&streams());
  ClientContext context;
  context.TryCancel();
  const auto stream = stub_->Chat(&context);
  GetParam().run(*stream);
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kCancelled);
  ExpectAllIsWell();
}

TEST_P(StreamingEndsForClientTest, WithoutAServer) {
  StartServer();
  StopServer();
  Connect();
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  GetParam().run(*stream);
  const absl::Status status = stream->Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(target()));
}

TEST_P(StreamingEndsForClientTest, ByCancellationWhileItWaitsForAServer) {
  StartServer();
  StopServer();
  Connect();
  ClientContext context;
  context.set_wait_for_ready(true);
  const auto stream = stub_->Chat(&context);
  std::thread canceller([&context] { context.TryCancel(); });
  GetParam().run(*stream);
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kCancelled);
  canceller.join();
}

TEST_P(StreamingEndsForClientTest, ByItsDeadlineWhileItWaitsForAServer) {
  StartServer();
  StopServer();
  Connect();
  ClientContext context;
  context.set_wait_for_ready(true);
  context.set_timeout(absl::Milliseconds(50));
  const auto stream = stub_->Chat(&context);
  GetParam().run(*stream);
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kDeadlineExceeded);
}

// Tests of streams that the client destroys without Finish().
class StreamingGivenUpTest : public StreamingEndsTest,
                             public ::testing::WithParamInterface<HandlerAct> {
};

INSTANTIATE_TEST_SUITE_P(Each, StreamingGivenUpTest,
                         ::testing::ValuesIn(kHandlerActs),
                         [](const auto& info) {
                           return std::string("HandlerThat") + info.param.name;
                         });

TEST_P(StreamingGivenUpTest, TheHandlerHearsIt) {
  Serve();
  StayingHandler handler(&streams(), GetParam());
  {
    ClientContext context;
    const auto stream = stub_->Chat(&context);
    EXPECT_TRUE(stream->Write(NewItem(1, 10)));
    handler.AwaitRunning();
  }
  handler.AwaitLeft();
  ExpectAllIsWell();
}

TEST_P(StreamingGivenUpTest, TheHandlerHearsItAfterTheLastMessage) {
  Serve();
  StayingHandler handler(&streams(), GetParam());
  {
    ClientContext context;
    const auto stream = stub_->Chat(&context);
    EXPECT_TRUE(stream->Write(NewItem(1, 10)));
    EXPECT_TRUE(stream->WritesDone());
    handler.AwaitRunning();
  }
  handler.AwaitLeft();
  ExpectAllIsWell();
}

TEST_F(StreamingEndsTest, OneThatIsGivenUpAtOnceLeavesNothing) {
  Connect();
  for (size_t i = 0; i < 300; ++i) {
    ClientContext context;
    const auto stream = stub_->Chat(&context);
    if (i % 2 == 1) stream->Write(NewItem(1, i * 300));
  }
  ExpectAllIsWell();
}

TEST_F(StreamingEndsTest, ShutdownWaitsForOpenStreams) {
  Serve();
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  ASSERT_TRUE(Echoes(*stream, NewItem(1, 10)));
  std::thread shutdown([this] { server().Shutdown(); });
  // Calls fail when the client has heard of the shutdown.
  const auto unary = EndToEnd::NewStub(channel_);
  while (EchoProblem(*unary, 1, 1).empty()) {
  }
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(Echoes(*stream, NewItem(i, i * 1000)));
  }
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
  shutdown.join();
}

}  // namespace
}  // namespace verbena::end_to_end
