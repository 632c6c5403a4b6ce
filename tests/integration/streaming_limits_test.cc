// Tests of the limits of open streams, of a server and of a connection. However
// a stream ends, its place is free for the next one.

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "rpc/support/stub_support.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/streaming_fixture.h"
#include "tests/integration/test_service.h"

namespace verbena::end_to_end {
namespace {

using ::testing::EndsWith;

constexpr char kServersWords[] =
    "the server has 2 streams in progress, which is its limit "
    "(ServerBuilder::SetMaxConcurrentStreams); this call was not processed";
constexpr char kConnectionsWords[] =
    "the connection has 2 streams open, which is its limit "
    "(ServerBuilder::SetMaxConcurrentStreamsPerConnection); this call was not "
    "processed";

// A chat that is open, if the server has taken it.
class OpenChat {
 public:
  explicit OpenChat(StreamService::Stub& stub) : stream_(stub.Chat(&context_)) {
    EXPECT_TRUE(Echoes(*stream_, NewItem(1)));
  }

  absl::Status End() {
    EXPECT_TRUE(stream_->WritesDone());
    return stream_->Finish();
  }
  ClientContext& context() { return context_; }
  ChatStream& stream() { return *stream_; }

 private:
  ClientContext context_;
  const std::unique_ptr<ChatStream> stream_;
};

absl::Status TryChat(StreamService::Stub& stub) {
  ClientContext context;
  const auto stream = stub.Chat(&context);
  stream->WritesDone();
  return stream->Finish();
}

void ExpectRefused(StreamService::Stub& stub, const std::string& words) {
  const absl::Status status = TryChat(stub);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), EndsWith(words));
}

class StreamingLimitsTest : public StreamingTest {
 protected:
  // Starts a server whose two limits are one stream.
  void ServeOne() {
    Serve([](ServerBuilder& builder) {
      builder.SetMaxConcurrentStreams(1).SetMaxConcurrentStreamsPerConnection(
          1);
    });
  }
  // Expects that a stream can be opened soon. The handler of the last one may
  // end later than its call.
  void ExpectFreeSoon() {
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    absl::Status status;
    do {
      status = TryChat(*stub_);
    } while (absl::IsResourceExhausted(status) && absl::Now() < deadline);
    EXPECT_EQ(status, absl::OkStatus());
  }
};

TEST_F(StreamingLimitsTest, TheServersLimitIsForAllConnectionsButNotForCalls) {
  Serve([](ServerBuilder& builder) { builder.SetMaxConcurrentStreams(2); });
  const auto channel = NewChannel();
  const auto other = StreamService::NewStub(channel);
  OpenChat first(*stub_);
  OpenChat second(*other);
  for (int i = 0; i < 3; ++i) {
    ExpectRefused(*stub_, kServersWords);
    ExpectRefused(*other, kServersWords);
    EXPECT_EQ(EchoProblem(*EndToEnd::NewStub(channel_), 100, 1), "");
    EXPECT_EQ(EchoProblem(*Inline::NewStub(channel), 100, 1), "");
  }
  EXPECT_EQ(first.End(), absl::OkStatus());
  OpenChat third(*other);
  ExpectRefused(*stub_, kServersWords);
  EXPECT_EQ(second.End(), absl::OkStatus());
  EXPECT_EQ(third.End(), absl::OkStatus());
}

TEST_F(StreamingLimitsTest, EachConnectionHasItsOwnLimit) {
  Serve([](ServerBuilder& builder) {
    builder.SetMaxConcurrentStreamsPerConnection(2);
  });
  const auto channel = NewChannel();
  const auto other = StreamService::NewStub(channel);
  OpenChat first(*stub_);
  OpenChat second(*stub_);
  OpenChat elsewhere(*other);
  for (int i = 0; i < 3; ++i) {
    ExpectRefused(*stub_, kConnectionsWords);
    EXPECT_EQ(EchoProblem(*EndToEnd::NewStub(channel_), 100, 1), "");
    EXPECT_EQ(TryChat(*other), absl::OkStatus());
  }
  EXPECT_EQ(first.End(), absl::OkStatus());
  OpenChat third(*stub_);
  ExpectRefused(*stub_, kConnectionsWords);
  for (OpenChat* chat : {&second, &elsewhere, &third}) {
    EXPECT_TRUE(Echoes(chat->stream(), NewItem(2)));
    EXPECT_EQ(chat->End(), absl::OkStatus());
  }
}

TEST_F(StreamingLimitsTest, AStreamThatEndsByItselfLeavesAtOnce) {
  ServeOne();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(OpenChat(*stub_).End(), absl::OkStatus());
  }
  streams().set_chat([](ServerContext*, auto*) -> absl::Status {
    return absl::AbortedError("enough");
  });
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(TryChat(*stub_), absl::AbortedError("enough"));
  }
  streams().set_chat(nullptr);
  EXPECT_EQ(TryChat(*stub_), absl::OkStatus());
}

TEST_F(StreamingLimitsTest, AStreamThatTheClientGivesUpLeaves) {
  ServeOne();
  for (int i = 0; i < 5; ++i) {
    {
      OpenChat cancelled(*stub_);
      cancelled.context().TryCancel();
      EXPECT_EQ(cancelled.stream().Finish().code(),
                absl::StatusCode::kCancelled);
    }
    ExpectFreeSoon();
    {
      // Its deadline may pass before the server has heard of it.
      ClientContext context;
      context.set_timeout(absl::Milliseconds(20));
      const absl::Status status = stub_->Chat(&context)->Finish();
      EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    }
    ExpectFreeSoon();
    // The connection ends with the channel, and the stream with that.
    std::shared_ptr<Channel> channel = NewChannel();
    auto stub = StreamService::NewStub(channel);
    { OpenChat dropped(*stub); }
    stub.reset();
    channel.reset();
    ExpectFreeSoon();
  }
}

TEST_F(StreamingLimitsTest, AStreamWhoseMessageIsTooLongLeaves) {
  Serve([](ServerBuilder& builder) {
    builder.SetMaxConcurrentStreams(1)
        .SetMaxConcurrentStreamsPerConnection(1)
        .SetMaxReceiveMessageSize(1000);
  });
  for (int i = 0; i < 5; ++i) {
    OpenChat chat(*stub_);
    EXPECT_TRUE(chat.stream().Write(NewItem(2, 5000)));
    const absl::Status status = chat.stream().Finish();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()),
                EndsWith("the server's limit (SetMaxReceiveMessageSize), "
                         "1000"));
    ExpectFreeSoon();
  }
}

// Whether a call streams is not for the client to say.
TEST_F(StreamingLimitsTest, CallsOfTheOtherKindOrOfNoMethodLeaveToo) {
  ServeOne();
  static constexpr MethodDescriptor streams(
      "verbena.end_to_end.StreamService/Chat");
  static constexpr MethodDescriptor unary("verbena.end_to_end.EndToEnd/Echo");
  static constexpr MethodDescriptor none("verbena.end_to_end.Nobody/Talks");
  for (int i = 0; i < 5; ++i) {
    ClientContext context;
    Item item;
    EXPECT_EQ(
        BlockingUnaryCall(*channel_, streams, &context, item, &item).code(),
        absl::StatusCode::kUnimplemented);
    for (const MethodDescriptor& method : {unary, none}) {
      ClientContext other;
      const auto stream =
          BidiStreamingCall<Item, Item>(channel_, method, &other);
      EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kUnimplemented);
    }
    EXPECT_EQ(OpenChat(*stub_).End(), absl::OkStatus());
  }
}

// A stream that both limits of the server refuse takes no place of the other.
TEST_F(StreamingLimitsTest, ARefusedStreamIsNotACallInWork) {
  Serve([](ServerBuilder& builder) {
    builder.SetMaxConcurrentStreams(2).SetMaxConcurrentCalls(3);
  });
  OpenChat first(*stub_);
  OpenChat second(*stub_);
  for (int i = 0; i < 5; ++i) {
    ExpectRefused(*stub_, kServersWords);
    EXPECT_EQ(EchoProblem(*EndToEnd::NewStub(channel_), 100, 1), "");
  }
  EXPECT_EQ(first.End(), absl::OkStatus());
  EXPECT_EQ(second.End(), absl::OkStatus());
}

}  // namespace
}  // namespace verbena::end_to_end
