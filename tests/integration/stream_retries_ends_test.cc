// Streams that are used, or end, while they are tried again.

#include <signal.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/metrics.h"
#include "rpc/resolver.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/services_fixture.h"
#include "tests/integration/stream_retries_fixture.h"
#include "tests/testing/child_process.h"

namespace verbena::end_to_end {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing_support::ChildProcess;

class StreamRetriesEndsTest : public StreamRetriesTest {
 protected:
  // Makes a call of each kind, whose first attempt fails. `end` ends it from
  // another thread when that has failed. Each must end with `code`.
  void ExpectEach(absl::StatusCode code,
                  const std::function<void(ClientContext*)>& end,
                  absl::Duration timeout = absl::Minutes(1)) {
    const auto expect =
        [&](const std::function<CallOutcome(ClientContext*)>& call) {
          service_.FailWith({{}});
          const uint64_t retries = channel_->GetMetrics().retries;
          ClientContext context;
          context.set_timeout(timeout);
          CallOutcome outcome;
          std::atomic<bool> over{false};
          std::thread thread([&] {
            outcome = call(&context);
            over = true;
          });
          while (channel_->GetMetrics().retries == retries && !over) {
            std::this_thread::yield();
          }
          end(&context);
          thread.join();
          EXPECT_EQ(outcome.status.code(), code) << outcome.status;
          EXPECT_TRUE(context.metadata().empty());
        };
    expect([&](ClientContext* context) { return List(context, 1); });
    expect([&](ClientContext* context) {
      return client()->Record(context, Items(3, 100), "");
    });
    expect([&](ClientContext* context) {
      return client()->Chat(context, Items(3, 100), "");
    });
    // The writer waits for room, too.
    expect([&](ClientContext* context) {
      return client()->Record(context, Items(100, 1000), "");
    });
  }
};

INSTANTIATE_TEST_SUITE_P(Forms, StreamRetriesEndsTest,
                         testing::ValuesIn(kForms), NameOfForm);

TEST_P(StreamRetriesEndsTest, AStreamCanBeCancelledBetweenAttempts) {
  Connect("3600s");
  ExpectEach(absl::StatusCode::kCancelled,
             [](ClientContext* context) { context->TryCancel(); });
}

TEST_P(StreamRetriesEndsTest, AStreamCanBeCancelledWhenItMayBeBetweenAttempts) {
  Connect("0.0001s");
  for (int i = 0; i < 50; ++i) {
    service_.FailWith({{}, {.reads = 1}, {.reads = 2}, {}});
    ClientContext context;
    CallOutcome outcome;
    std::thread thread(
        [&] { outcome = client()->Record(&context, Items(100, 1000), ""); });
    service_.AwaitAttempts(1 + static_cast<size_t>(i) % 3);
    context.TryCancel();
    thread.join();
    // A handler of a cancelled attempt may have taken a failure of this call's.
    EXPECT_TRUE(outcome.status.ok() || absl::IsCancelled(outcome.status) ||
                absl::IsUnavailable(outcome.status))
        << outcome.status;
  }
}

TEST_P(StreamRetriesEndsTest, TheDeadlineIsThatOfAllAttempts) {
  Connect("3600s");
  EXPECT_EQ(List(1).status, absl::OkStatus());
  ExpectEach(
      absl::StatusCode::kDeadlineExceeded, [](ClientContext*) {},
      absl::Milliseconds(500));
}

TEST_P(StreamRetriesEndsTest, AServerIsKilledBeforeItsFirstResponse) {
  server_.reset();
  ChildProcess process({EndToEndServerPath(), "--listen=" + Address()});
  ASSERT_THAT(process.ReadLine(), HasSubstr("listening on"));
  Connect("0.01s");
  EXPECT_EQ(List(1).status, absl::OkStatus());
  // The server reads nothing any more, but its connection still stands.
  process.Stop();
  ClientContext context;
  context.set_timeout(absl::Minutes(1));
  context.set_wait_for_ready(true);
  CallOutcome outcome;
  std::thread thread([&] {
    outcome = client()->Record(&context, Items(200, 1000), "beside");
  });
  const auto open_calls = [&] {
    uint64_t open = 0;
    for (const auto& method : channel_->GetMetrics().methods) {
      open += method.open();
    }
    return open;
  };
  while (open_calls() == 0) std::this_thread::yield();
  process.Signal(SIGKILL);
  EXPECT_EQ(process.Wait(), -SIGKILL);
  StartServer();
  thread.join();
  EXPECT_EQ(outcome.status, absl::OkStatus());
  ASSERT_THAT(service_.seen(), SizeIs(1));
  EXPECT_EQ(service_.seen()[0].numbers, NumbersTo(200));
  EXPECT_TRUE(service_.seen()[0].intact);
  EXPECT_GE(channel_->GetMetrics().retries, 1u);
}

// --- Streams of one form -----------------------------------------------------

class StreamRetriesUseTest : public FlakyStreamsTest {
 protected:
  StreamRetriesUseTest() { context_.set_timeout(absl::Minutes(1)); }

  void ConnectStub(const std::string& pause = "0.001s") {
    Connect(pause);
    stub_ = StreamService::NewStub(channel_);
  }

  ClientContext context_;
  std::unique_ptr<StreamService::Stub> stub_;
};

TEST_F(StreamRetriesUseTest, WhatIsWrittenBetweenAttemptsFollowsWhatIsKept) {
  ConnectStub("0.05s");
  service_.FailWith({{.reads = 2}, {.reads = 4}});
  const auto stream = stub_->Chat(&context_);
  uint64_t written = 0;
  for (size_t attempt = 1; attempt <= 2; ++attempt) {
    EXPECT_TRUE(stream->Write(NewItem(written++, 100)));
    EXPECT_TRUE(stream->Write(NewItem(written++, 20'000)));
    service_.AwaitAttempts(attempt);
  }
  EXPECT_TRUE(stream->Write(NewItem(written++, 5)));
  EXPECT_TRUE(stream->WritesDone());
  Item item;
  for (uint64_t i = 0; i < written; ++i) {
    ASSERT_TRUE(stream->Read(&item));
    EXPECT_EQ(item.number(), i);
  }
  EXPECT_FALSE(stream->Read(&item));
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
  EXPECT_THAT(service_.seen(), SizeIs(3));
  EXPECT_TRUE(service_.seen()[2].intact);
}

// The copies are many times what the windows of the streams allow, and so are
// the answers that come meanwhile.
TEST_F(StreamRetriesUseTest, BothDirectionsFlowWhileAStreamIsSentAgain) {
  options_.retry_buffer_bytes = 1 << 20;
  ConnectStub();
  constexpr uint64_t kItems = 400;
  service_.FailWith({{.reads = 50}, {.reads = 200}, {.reads = 300}});
  const auto stream = stub_->Chat(&context_);
  std::thread writer([&] {
    for (uint64_t i = 0; i < kItems; ++i) {
      EXPECT_TRUE(stream->Write(NewItem(i, i % 50 == 0 ? 20'000 : 1500)));
    }
    EXPECT_TRUE(stream->WritesDone());
  });
  Item item;
  for (uint64_t i = 0; i < kItems; ++i) {
    EXPECT_TRUE(stream->Read(&item));
    EXPECT_EQ(item.number(), i);
  }
  writer.join();
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
  EXPECT_THAT(service_.previous(), ElementsAre("", "1", "2", "3"));
}

// Nobody waits for the stream meanwhile.
TEST_F(StreamRetriesUseTest, AttemptsNeedNoThreadThatWaits) {
  ConnectStub();
  service_.FailWith({{}, {}});
  const auto stream = stub_->Chat(&context_);
  EXPECT_TRUE(stream->Write(NewItem(0)));
  service_.AwaitAttempts(3);
  EXPECT_TRUE(stream->WritesDone());
  Item item;
  EXPECT_TRUE(stream->Read(&item));
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
}

TEST_F(StreamRetriesUseTest, InitialMetadataAreAwaitedThroughAllAttempts) {
  ConnectStub();
  service_.FailWith({{}, {}, {.sends_metadata = true}});
  const auto stream = stub_->Chat(&context_);
  stream->WaitForInitialMetadata();
  EXPECT_EQ(context_.GetServerInitialMetadata().count("begun"), 1u);
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(service_.previous(), ElementsAre("", "1", "2"));
}

TEST_F(StreamRetriesUseTest, AStreamThatIsDroppedBetweenAttemptsEnds) {
  ConnectStub("3600s");
  service_.FailWith({{}});
  {
    const auto stream = stub_->Chat(&context_);
    EXPECT_TRUE(stream->Write(NewItem(0)));
    service_.AwaitAttempts(1);
  }
  EXPECT_THAT(service_.seen(), SizeIs(1));
}

TEST_F(StreamRetriesUseTest, AServerRestartsInTheMiddleOfAStream) {
  ConnectStub("0.01s");
  context_.set_wait_for_ready(true);
  Summary summary;
  const auto stream = stub_->Record(&context_, &summary);
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_TRUE(stream->Write(NewItem(i, 1000)));
  }
  service_.AwaitAttempts(1);
  server_.reset();
  StartServer();
  for (uint64_t i = 10; i < 20; ++i) {
    EXPECT_TRUE(stream->Write(NewItem(i, 1000)));
  }
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
  EXPECT_EQ(summary.count(), 20u);
  EXPECT_TRUE(summary.in_order());
}

// The channel has no config yet when the messages are written.
TEST_F(StreamRetriesUseTest, AConfigThatComesLateBoundsWhatIsWritten) {
  for (const size_t bytes : {size_t{90}, size_t{200}, size_t{30'000}}) {
    const auto registry = std::make_shared<Registry>();
    ChannelOptions options;
    options.resolvers.push_back(registry);
    const auto stub =
        StreamService::NewStub(CreateChannel("registry:///streams", options));
    ClientContext context;
    Summary summary;
    const auto stream = stub->Record(&context, &summary);
    // A long message is written only when none is before it.
    if (bytes < 1000) {
      EXPECT_TRUE(stream->Write(NewItem(0, 10)));
    }
    EXPECT_TRUE(stream->Write(NewItem(1, bytes)));
    Resolved resolved;
    resolved.servers.push_back({.address = Address()});
    resolved.service_config = R"({"methodConfig": [{"name": [{}],
        "maxRequestMessageBytes": 100}]})";
    registry->Answer(resolved);
    const absl::Status status = stream->Finish();
    EXPECT_EQ(status.code(), bytes <= 90 ? absl::StatusCode::kOk
                                         : absl::StatusCode::kResourceExhausted)
        << status;
  }
}

// Writes down its reactions to what it writes, and the others, and reads all
// the while.
class Scribe final : public ClientBidiReactor<Item, Item> {
 public:
  explicit Scribe(uint64_t items) : items_(items) {
    StartRead(&answer_);
    Next();
  }
  void Await() {
    StartCall();
    done_.Wait();
  }
  const std::vector<std::string>& writes() const { return writes_; }
  const std::vector<std::string>& reads() const { return reads_; }

  void OnReadInitialMetadataDone(bool ok) override {
    reads_.push_back(absl::StrCat("initial ", ok));
  }
  void OnWriteDone(bool ok) override {
    writes_.push_back(absl::StrCat("written ", ok));
    Next();
  }
  void OnWritesDoneDone(bool ok) override {
    writes_.push_back(absl::StrCat("all ", ok));
  }
  void OnReadDone(bool ok) override {
    reads_.push_back(ok ? absl::StrCat("read ", answer_.number()) : "end");
    if (ok) StartRead(&answer_);
  }
  void OnDone(const absl::Status& status) override {
    reads_.push_back(absl::StatusCodeToString(status.code()));
    done_.Done();
  }

 private:
  void Next() {
    if (written_ == items_) return StartWritesDone();
    item_ = NewItem(written_++, 10);
    StartWrite(&item_);
  }

  const uint64_t items_;
  uint64_t written_ = 0;
  Item item_;
  Item answer_;
  std::vector<std::string> writes_;
  std::vector<std::string> reads_;
  Countdown done_{1};
};

TEST_F(StreamRetriesUseTest, AReactorHearsOfEachOperationOnce) {
  ConnectStub();
  service_.FailWith({{.reads = -1}, {.reads = 2}});
  Scribe scribe(3);
  stub_->async()->Chat(&context_, &scribe);
  scribe.Await();
  EXPECT_THAT(scribe.writes(),
              ElementsAre("written 1", "written 1", "written 1", "all 1"));
  EXPECT_THAT(scribe.reads(), ElementsAre("initial 1", "read 0", "read 1",
                                          "read 2", "end", "OK"));
  EXPECT_THAT(service_.previous(), ElementsAre("", "1", "2"));
}

TEST_F(StreamRetriesUseTest, AReactorHearsOfTheEndOnceIfAllAttemptsFail) {
  ConnectStub();
  service_.FailWith(
      {{.reads = -1}, {.reads = 2}, {.reads = -1}, {.reads = -1}});
  Scribe scribe(3);
  stub_->async()->Chat(&context_, &scribe);
  scribe.Await();
  EXPECT_THAT(scribe.writes(),
              ElementsAre("written 1", "written 1", "written 1", "all 1"));
  EXPECT_THAT(scribe.reads(), ElementsAre("initial 0", "end", "UNAVAILABLE"));
}

}  // namespace
}  // namespace verbena::end_to_end
