// However a call ends, its interceptors hear of that, once and last.

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/generic_service.h"
#include "rpc/generic_stub.h"
#include "rpc/rpc.h"
#include "rpc/task.h"
#include "tests/integration/forms_fixture.h"
#include "tests/integration/interceptors_fixture.h"
#include "tests/integration/streaming_fixture.h"

namespace verbena::end_to_end {
namespace {

using google::protobuf::MessageLite;
using testing::ElementsAre;
using testing::IsEmpty;

using EachFormEndsTest = EachFormInterceptorsTest;
INSTANTIATE_TEST_SUITE_P(Forms, EachFormEndsTest, EachFormOfBoth(), NameOfBoth);

TEST_P(EachFormEndsTest, CancelledInMidStream) {
  AddClient({.receive = [](ClientContext* context, MessageLite*) {
    context->TryCancel();
  }});
  AddClient();
  AddServer();
  Connect();
  EXPECT_EQ(Call(3, 10).status.code(), absl::StatusCode::kCancelled);
  ExpectOneEndEach("client1");
  ExpectOneEndEach("client2");
  ExpectOneEndEach("server1");
}

TEST_P(EachFormEndsTest, CancelledBeforeItBegins) {
  AddClient({.start = [](ClientContext* context) {
    context->TryCancel();
    return absl::OkStatus();
  }});
  AddServer();
  Connect();
  for (int kind = 0; kind < kKinds; ++kind) {
    EXPECT_EQ(Call(kind).status.code(), absl::StatusCode::kCancelled) << kind;
  }
  EXPECT_EQ(journal_.Count("client1 end CANCELLED"), size_t{kKinds});
  EXPECT_THAT(journal_.Of("server"), IsEmpty());
}

TEST_P(EachFormEndsTest, AfterItsDeadline) {
  AddClient();
  Connect();
  for (int kind = 0; kind < kKinds; ++kind) {
    ClientContext context;
    context.set_timeout(absl::ZeroDuration());
    EXPECT_EQ(Call(kind, &context).status.code(),
              absl::StatusCode::kDeadlineExceeded);
  }
  EXPECT_EQ(journal_.Count("client1 end DEADLINE_EXCEEDED"), size_t{kKinds});
}

TEST_P(EachFormEndsTest, NobodyListens) {
  AddClient();
  Connect();
  server_.reset();
  for (int kind = 0; kind < kKinds; ++kind) {
    EXPECT_EQ(Call(kind).status.code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(journal_.Count("client1 end UNAVAILABLE"), size_t{kKinds});
}

TEST_P(EachFormEndsTest, AMessageIsTooLong) {
  AddClient();
  AddServer();
  options_.max_send_message_bytes = 1;
  Connect();
  EXPECT_EQ(Call(0).status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Call(1).status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Call(3).status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(journal_.Count("client1 end RESOURCE_EXHAUSTED"), 3u);
  EXPECT_EQ(journal_.Count("client1 end"), 3u);
  // Calls that reached the server end there, too.
  journal_.Await("server1 end", journal_.Count("server1 start"));
}

// A long message arrives in two parts, but interceptors see the whole.
TEST_P(EachFormEndsTest, WithALongStatus) {
  const absl::Status status = absl::DataLossError(std::string(8192, 'l'));
  int whole = 0;
  AddClient({.end = [&](ClientContext*, absl::Status* end) {
    whole += *end == status ? 1 : 0;
  }});
  AddServer({.end = [&](ServerContext*, absl::Status* end) { *end = status; }});
  Connect();
  for (int kind = 0; kind < kKinds; ++kind) {
    EXPECT_EQ(Call(kind).status, status) << kind;
  }
  EXPECT_EQ(whole, kKinds);
}

// Tests that do not depend on the form of the client.
class ServersEndsTest : public InterceptorsTest,
                        public ::testing::WithParamInterface<Form> {
 protected:
  void Connect() {
    InterceptorsTest::Connect(Form::kBlocking, GetParam());
    stub_ = StreamService::NewStub(channel_);
  }

  std::unique_ptr<StreamService::Stub> stub_;
};

INSTANTIATE_TEST_SUITE_P(Forms, ServersEndsTest, testing::ValuesIn(kForms),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(ServersEndsTest, TheDeadlinePassesInMidStream) {
  AddClient();
  AddServer();
  Connect();
  ClientContext context;
  context.set_timeout(absl::Milliseconds(300));
  const auto stream = stub_->Chat(&context);
  Item item;
  while (stream->Write(item) && stream->Read(&item)) {
  }
  // A handler whose read has failed may return before the client has looked at
  // its own clock: then this is OK.
  const std::string code = absl::StatusCodeToString(stream->Finish().code());
  ExpectOneEndEach("client1");
  EXPECT_EQ(journal_.Count("client1 end " + code), 1u) << code;
  // The call may have been over before its handler ran.
  if (journal_.Count("server1 start") > 0) ExpectOneEndEach("server1");
}

TEST_P(ServersEndsTest, AStreamIsDroppedInTheMiddle) {
  AddClient();
  AddServer();
  Connect();
  ClientContext context;
  {
    const auto stream = stub_->Chat(&context);
    EXPECT_TRUE(Echoes(*stream, NewItem(1)));
  }
  ExpectOneEndEach("client1");
  ExpectOneEndEach("server1");
}

TEST_P(ServersEndsTest, ACoroutineDropsItsStreamInTheMiddle) {
  AddClient();
  AddServer();
  Connect();
  SyncWait([](StreamService::Stub* stub) -> Task<void> {
    ClientContext context;
    auto stream = stub->co()->Chat(&context);
    Item item;
    co_await stream.Write(item);
    co_await stream.Read(&item);
  }(stub_.get()));
  ExpectOneEndEach("client1");
  ExpectOneEndEach("server1");
  EXPECT_EQ(journal_.Count("client1 end CANCELLED"), 1u);
}

TEST_P(ServersEndsTest, TheServerGoesAwayInMidStream) {
  AddClient();
  AddServer();
  Connect();
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  ASSERT_TRUE(Echoes(*stream, NewItem(1)));
  server_->Shutdown(absl::InfinitePast());
  Item item;
  EXPECT_FALSE(stream->Read(&item));
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kUnavailable);
  ExpectOneEndEach("client1");
  ExpectOneEndEach("server1");
}

TEST_P(ServersEndsTest, OneThreadWritesWhileAnotherReads) {
  AddClient();
  AddServer();
  Connect();
  constexpr int kItems = 2000;
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  std::thread writer([&] {
    for (int i = 0; i < kItems; ++i) {
      if (!stream->Write(NewItem(100 + i))) return;
    }
    stream->WritesDone();
  });
  Item item;
  while (stream->Read(&item)) {
  }
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
  writer.join();
  EXPECT_EQ(journal_.Count("client1 send"), size_t{kItems});
  EXPECT_EQ(journal_.Count("server1 send"), size_t{kItems});
  EXPECT_EQ(journal_.Count("client1 receive"), size_t{kItems});
  ExpectOneEndEach("client1");
  ExpectOneEndEach("server1");
}

TEST_P(ServersEndsTest, NothingComesAfterTheEndThoughAThreadStillWrites) {
  AddClient();
  AddServer({.end = [](ServerContext*, absl::Status* status) {
    *status = absl::OutOfRangeError("enough");
  }});
  Connect();
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  std::thread writer([&] {
    // The handler ends the stream at 13.
    for (int i = 0; stream->Write(NewItem(i)); ++i) {
    }
  });
  Item item;
  while (stream->Read(&item)) {
  }
  EXPECT_EQ(stream->Finish(), absl::OutOfRangeError("enough"));
  writer.join();
  ExpectOneEndEach("client1");
}

class InterceptedCallsTest : public InterceptorsTest {
 protected:
  void SetUp() override { AddClient(); }
};

TEST_F(InterceptedCallsTest, ACallWhoseContextIsInUseHasNone) {
  AddServer();
  Connect(Form::kBlocking, Form::kBlocking);
  const auto stub = StreamService::NewStub(channel_);
  ClientContext context;
  const auto stream = stub->Chat(&context);
  ASSERT_TRUE(Echoes(*stream, NewItem(1)));
  for (int kind = 0; kind < kKinds; ++kind) {
    EXPECT_EQ(Call(kind, &context).status.code(),
              absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(journal_.Count("client1 start"), 1u);
  EXPECT_EQ(journal_.Count("client1 end"), 0u);
  stream->WritesDone();
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
  ExpectOneEndEach("client1");
}

TEST_F(InterceptedCallsTest, ACallThatWaitsIsCancelled) {
  Connect(Form::kBlocking, Form::kBlocking);
  server_.reset();
  const auto stub = Inline::NewStub(channel_);
  ClientContext context;
  context.set_wait_for_ready(true);
  EchoRequest request;
  EchoReply reply;
  Countdown done(1);
  absl::Status ended;
  stub->async()->Echo(&context, &request, &reply, [&](absl::Status status) {
    ended = std::move(status);
    done.Done();
  });
  EXPECT_EQ(journal_.Count("client1 end"), 0u);
  context.TryCancel();
  done.Wait();
  EXPECT_EQ(ended.code(), absl::StatusCode::kCancelled);
  ExpectOneEndEach("client1");
}

TEST_F(InterceptedCallsTest, AServersInterceptorsHearNothingOfWhatItHasNot) {
  AddServer();
  Connect(Form::kBlocking, Form::kBlocking);
  const auto stub = Unregistered::NewStub(channel_);
  ClientContext context;
  EchoReply reply;
  EXPECT_EQ(stub->Echo(&context, EchoRequest(), &reply).code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_THAT(journal_.Of("client1 end"),
              ElementsAre("client1 end UNIMPLEMENTED"));
  EXPECT_THAT(journal_.Of("server"), IsEmpty());
}

// Sends back what it gets.
class Mirror final : public GenericService {
  absl::Status HandleUnary(ServerContext* /*context*/,
                           const ByteMessage* request,
                           ByteMessage* response) override {
    *response = *request;
    return absl::OkStatus();
  }
  absl::Status HandleStream(
      ServerContext* /*context*/,
      ServerReaderWriter<ByteMessage, ByteMessage>* stream) override {
    ByteMessage message;
    while (stream->Read(&message)) stream->Write(message);
    return absl::OkStatus();
  }
};

TEST_F(InterceptedCallsTest, CallsByNamePassThroughThemToo) {
  AddServer();
  Mirror mirror;
  builder_.RegisterGenericService(&mirror);
  Start(&builder_, options_);
  const GenericStub stub(channel_);
  const ByteMessage request("bytes");
  ByteMessage response;
  ClientContext context;
  EXPECT_EQ(stub.UnaryCall(&context, "a.B/One", request, &response),
            absl::OkStatus());
  Countdown done(1);
  stub.UnaryCall(&context, "a.B/Two", &request, &response,
                 [&](const absl::Status&) { done.Done(); });
  done.Wait();
  EXPECT_EQ(stub.ServerStreamingCall(&context, "a.B/Three", request)->Finish(),
            absl::OkStatus());
  EXPECT_EQ(stub.ClientStreamingCall(&context, "a.B/Four", &response)
                ->Finish()
                .code(),
            absl::StatusCode::kInternal);  // No response.
  const auto stream = stub.BidiStreamingCall(&context, "a.B/Five");
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
  EXPECT_THAT(
      journal_.Of("client1 start"),
      ElementsAre("client1 start a.B/One unary", "client1 start a.B/Two unary",
                  "client1 start a.B/Three server",
                  "client1 start a.B/Four client",
                  "client1 start a.B/Five bidi"));
  EXPECT_THAT(
      journal_.Of("server1 start"),
      ElementsAre("server1 start a.B/One unary", "server1 start a.B/Two unary",
                  "server1 start a.B/Three bidi", "server1 start a.B/Four bidi",
                  "server1 start a.B/Five bidi"));
  EXPECT_EQ(journal_.Count("client1 end OK"), 5u);
  EXPECT_EQ(journal_.Count("server1 end OK"), 5u);
  // Before the mirror.
  server_.reset();
}

}  // namespace
}  // namespace verbena::end_to_end
