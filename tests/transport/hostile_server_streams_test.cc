// Servers that break the rules of streams: the client's calls end with a Status
// that says what was wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/transport/hostile_server_fixture.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/limits.h"
#include "transport/client/client_call.h"
#include "transport/streams/message_stream.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kDataBytes = kBufferBytes - sizeof(FrameHeader);
constexpr uint64_t kMaxMessageBytes = 1 << 20;

std::string Message(const std::string& text) {
  const MessageHeader header = {static_cast<uint32_t>(text.size()), 0};
  std::string bytes(sizeof(header), '\0');
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes + text;
}

// A streaming call whose user reads when the test says so.
class StreamingCall final : public ClientCall, public MessageStream::Owner {
 public:
  StreamingCall() { set_stream(&messages_); }

  // Returns the next message, or "wait" if none has come yet, or "over" if no
  // more will come.
  std::string Read() {
    MessageStream::Message message;
    switch (messages_.Read(&message)) {
      case MessageStream::Result::kDone:
        return std::string(message.message.begin(), message.message.end());
      case MessageStream::Result::kWait:
        return "wait";
      default:
        return "over";
    }
  }
  // Writes a message of `bytes` bytes, into memory from `allocate`.
  MessageStream::Result Write(uint64_t bytes,
                              MessageStream::Allocate allocate) {
    return messages_.Write(
        bytes, {}, /*attachment_buffer=*/nullptr, allocate,
        [bytes](uint8_t* out) { std::memset(out, 'w', bytes); });
  }
  bool readable() const { return readable_; }
  bool ended() const { return ended_; }
  const absl::Status& status() const { return status_; }

  void WriteRequest(uint8_t* /*out*/) override {}
  void OnResponse(const CallResponse& response) override {
    EndWith(absl::Status(response.code, ""));
  }
  void OnFailed(const absl::Status& status) override { EndWith(status); }
  // Runs at once, because the thread that reads is also the one that polls.
  void PostStream() override { messages_.Run(); }
  void OnReadable() override { readable_ = true; }
  void OnWritable() override {}

 private:
  void EndWith(const absl::Status& status) {
    EXPECT_FALSE(ended_);
    ended_ = true;
    status_ = status;
  }

  MessageStream messages_{this, kMaxMessageBytes, "the test's limit",
                          /*marks_end=*/true};
  bool readable_ = false;
  bool ended_ = false;
  absl::Status status_;
};

class HostileServerStreamsTest : public HostileServerFixture {
 protected:
  // Starts the call at a connected client; its id.
  uint32_t Start(StreamingCall& call) {
    Opened();
    client_->connection().Start(&call);
    const absl::StatusOr<std::string> request =
        PollForFrame(FrameType::kRequest);
    CHECK(request.ok()) << request.status().ToString();
    return HeaderOf<FrameHeader>(*request).call_id;
  }
  FrameHeader Data(uint32_t call_id, uint8_t flags = 0) {
    FrameHeader data = raw_->Header(FrameType::kData, call_id);
    data.flags = flags;
    return data;
  }
  void ExpectEndOf(StreamingCall& call, const std::string& text) {
    ASSERT_TRUE(client_->RunUntil([&call] { return call.ended(); }));
    EXPECT_EQ(call.status().code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(call.status().message()), HasSubstr(text));
  }
};

TEST_F(HostileServerStreamsTest, EndsCallsForInitialMetadataBehindAMessage) {
  StreamingCall call;
  const uint32_t id = Start(call);
  ASSERT_TRUE(SendWhilePolling(FrameText(Data(id), Message("one"))).ok());
  FrameHeader metadata = raw_->Header(FrameType::kMetadata, id);
  metadata.flags = kFlagInitialMetadata | kFlagMetadataEnd;
  ASSERT_TRUE(SendWhilePolling(FrameText(metadata)).ok());
  ExpectEndOf(call, "initial METADATA behind a message");
}

TEST_F(HostileServerStreamsTest, GoodOnesAreRead) {
  StreamingCall call;
  const uint32_t id = Start(call);
  EXPECT_EQ(call.Read(), "wait");
  ASSERT_TRUE(
      raw_->Send(FrameText(Data(id), Message("one") + Message("two"))).ok());
  ASSERT_TRUE(client_->RunUntil([&call] { return call.readable(); }));
  EXPECT_EQ(call.Read(), "one");
  EXPECT_EQ(call.Read(), "two");
  ResponseHeader response = {};
  response.frame = raw_->Header(FrameType::kResponse, id);
  ASSERT_TRUE(SendWhilePolling(FrameText(response)).ok());
  ASSERT_TRUE(client_->RunUntil([&call] { return call.ended(); }));
  EXPECT_TRUE(call.status().ok()) << call.status();
  EXPECT_EQ(call.Read(), "over");
}

TEST_F(HostileServerStreamsTest, MustNotSendDataOfACallThatDoesNotStream) {
  Opened();
  TestCall call("x");
  const RequestHeader request = StartAndReceive(call);
  ExpectEnd(call, FrameText(Data(request.frame.call_id), Message("text")),
            "of a call without them");
}

TEST_F(HostileServerStreamsTest, MustNotSendDataOfACallThatIsNotOpen) {
  StreamingCall call;
  const uint32_t id = Start(call);
  ASSERT_TRUE(raw_->Send(FrameText(Data(id + 1), Message("text"))).ok());
  ExpectEndOf(call, "call that is not open");
}

TEST_F(HostileServerStreamsTest, MustNotMarkDataAsTheLastOfAClient) {
  StreamingCall call;
  const uint32_t id = Start(call);
  ASSERT_TRUE(
      raw_->Send(FrameText(Data(id, kFlagLastData), Message("text"))).ok());
  ExpectEndOf(call, "marked DATA as a client's last");
}

TEST_F(HostileServerStreamsTest, MustNotSendMoreThanTheWindow) {
  StreamingCall call;
  const uint32_t id = Start(call);
  const std::string body(kDataBytes, '\0');  // Empty messages.
  for (uint64_t sent = 0; sent <= kStreamWindowBytes; sent += body.size()) {
    ASSERT_TRUE(SendWhilePolling(FrameText(Data(id), body)).ok());
  }
  ExpectEndOf(call, "more of a stream than it may");
}

TEST_F(HostileServerStreamsTest, MustNotTakeAWindowBack) {
  StreamingCall call;
  const uint32_t id = Start(call);
  WindowHeader window = {};
  window.frame = raw_->Header(FrameType::kWindow, id);
  ASSERT_TRUE(raw_->Send(FrameText(window)).ok());
  ExpectEndOf(call, "took back what it had allowed");
}

// The call ends, and the connection goes on.
TEST_F(HostileServerStreamsTest, AreToldToStopWhenAMessageIsTooLong) {
  StreamingCall call;
  const uint32_t id = Start(call);
  const MessageHeader header = {kMaxMessageBytes, 1};
  std::string body(sizeof(header), '\0');
  std::memcpy(body.data(), &header, sizeof(header));
  ASSERT_TRUE(raw_->Send(FrameText(Data(id), body)).ok());
  ASSERT_TRUE(client_->RunUntil([&call] { return call.ended(); }));
  EXPECT_EQ(call.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(call.status().message()),
              HasSubstr("larger than the test's limit"));
  EXPECT_TRUE(PollForFrame(FrameType::kCancel).ok());
  // Further messages of the server are dropped.
  ASSERT_TRUE(SendWhilePolling(FrameText(Data(id), Message("more"))).ok());
  ResponseHeader response = {};
  response.frame = raw_->Header(FrameType::kResponse, id);
  response.code = static_cast<uint32_t>(absl::StatusCode::kCancelled);
  ASSERT_TRUE(SendWhilePolling(FrameText(response)).ok());
  EXPECT_FALSE(client_->connection().failed());
}

class HostileServerLongMessagesTest : public HostileServerStreamsTest {
 protected:
  // Has the client read a long message that comes in DATA frames. After that,
  // the client lends memory for long messages. Returns the first lease.
  LeaseHeader AwaitLease(StreamingCall& call, uint32_t id) {
    const std::string text(kLongBytes, 'x');
    const std::string body = Message(text);
    for (size_t at = 0; at < body.size(); at += kDataBytes) {
      EXPECT_TRUE(
          SendWhilePolling(FrameText(Data(id), body.substr(at, kDataBytes)))
              .ok());
    }
    EXPECT_EQ(AwaitMessage(call), text);
    const absl::StatusOr<std::string> lease = PollForFrame(FrameType::kLease);
    CHECK(lease.ok()) << lease.status().ToString();
    return HeaderOf<LeaseHeader>(*lease);
  }
  std::string AwaitMessage(StreamingCall& call) {
    std::string read = "wait";
    EXPECT_TRUE(client_->RunUntil([&] {
      if (read == "wait") read = call.Read();
      return read != "wait";
    }));
    return read;
  }
  // A message of so many bytes in that lease.
  LongMessageHeader In(const LeaseHeader& lease, uint32_t bytes) {
    LongMessageHeader message = {};
    message.frame = raw_->Header(FrameType::kMessage, lease.frame.call_id);
    message.frame.flags = kFlagMessageInArena;
    message.message_bytes = bytes;
    message.message_offset = lease.offset;
    message.message_arena = lease.arena;
    return message;
  }

  static constexpr uint32_t kLongBytes = 40000;
};

TEST_F(HostileServerLongMessagesTest, GoodOnesAreRead) {
  StreamingCall call;
  const uint32_t id = Start(call);
  const LeaseHeader lease = AwaitLease(call, id);
  EXPECT_GE(lease.bytes, kLongBytes);
  LongMessageHeader message = In(lease, lease.bytes);
  ASSERT_TRUE(SendWhilePolling(FrameText(message)).ok());
  EXPECT_EQ(AwaitMessage(call).size(), lease.bytes);
  // The client lends another lease in place of this one.
  EXPECT_TRUE(PollForFrame(FrameType::kLease).ok());
  client_->connection().Cancel(&call, absl::CancelledError("enough"));
}

TEST_F(HostileServerLongMessagesTest, MustUseALeaseOnce) {
  StreamingCall call;
  const LeaseHeader lease = AwaitLease(call, Start(call));
  ASSERT_TRUE(SendWhilePolling(FrameText(In(lease, 100))).ok());
  ASSERT_TRUE(SendWhilePolling(FrameText(In(lease, 100))).ok());
  ExpectEndOf(call, "in no lease of the stream");
}

TEST_F(HostileServerLongMessagesTest, MustStayInTheLease) {
  StreamingCall call;
  const LeaseHeader lease = AwaitLease(call, Start(call));
  ASSERT_TRUE(SendWhilePolling(FrameText(In(lease, lease.bytes + 1))).ok());
  ExpectEndOf(call, "beyond one");
}

TEST_F(HostileServerLongMessagesTest, MustPutTheAttachmentBehindTheMessage) {
  StreamingCall call;
  const LeaseHeader lease = AwaitLease(call, Start(call));
  LongMessageHeader message = In(lease, 100);
  message.frame.flags |= kFlagAttachmentInArena;
  message.attachment_bytes = 100;
  message.attachment_offset = lease.offset + 256;
  message.attachment_arena = lease.arena;
  ASSERT_TRUE(SendWhilePolling(FrameText(message)).ok());
  ExpectEndOf(call, "not behind the message");
}

TEST_F(HostileServerLongMessagesTest, MustGiveBackOnlyWhatWasLent) {
  StreamingCall call;
  LeaseHeader lease = AwaitLease(call, Start(call));
  lease.frame = raw_->Header(FrameType::kLease, lease.frame.call_id);
  lease.offset += 64;
  ASSERT_TRUE(SendWhilePolling(FrameText(lease)).ok());
  ExpectEndOf(call, "that the stream did not lend");
}

TEST_F(HostileServerLongMessagesTest, MustNotSayThatItReadWhatWasNotSent) {
  StreamingCall call;
  const uint32_t id = Start(call);
  WindowHeader window = {};
  window.frame = raw_->Header(FrameType::kWindow, id);
  window.limit = kStreamWindowBytes;
  window.message_limit = kStreamLongMessages + 1;
  ASSERT_TRUE(SendWhilePolling(FrameText(window)).ok());
  ExpectEndOf(call, "more MESSAGEs of a stream than it can have read");
}

TEST_F(HostileServerLongMessagesTest, MustNotAskForALeaseForAStream) {
  StreamingCall call;
  const uint32_t id = Start(call);
  ResponsePendingHeader pending = {};
  pending.frame = raw_->Header(FrameType::kResponsePending, id);
  pending.message_bytes = kLongBytes;
  ASSERT_TRUE(SendWhilePolling(FrameText(pending)).ok());
  ExpectEndOf(call, "asked for a lease for a stream");
}

// A server that reads nothing gets kStreamLongMessages, and what is beyond
// waits.
TEST_F(HostileServerLongMessagesTest, GetAsManyAsTheyMay) {
  StreamingCall call;
  const uint32_t id = Start(call);
  const auto allocate = [this](size_t bytes) {
    return client_->connection().buffer_source().AllocateSpare(bytes);
  };
  for (uint32_t i = 0; i < kStreamLongMessages; ++i) {
    ASSERT_EQ(call.Write(100000, allocate), MessageStream::Result::kDone);
    const absl::StatusOr<std::string> frame = PollForFrame(FrameType::kMessage);
    ASSERT_TRUE(frame.ok()) << frame.status();
    EXPECT_EQ(HeaderOf<LongMessageHeader>(*frame).message_bytes, 100000u);
  }
  ASSERT_EQ(call.Write(100000, allocate), MessageStream::Result::kDone);
  WindowHeader window = {};
  window.frame = raw_->Header(FrameType::kWindow, id);
  window.limit = kStreamWindowBytes;
  window.message_limit = kStreamLongMessages + 1;
  ASSERT_TRUE(SendWhilePolling(FrameText(window)).ok());
  EXPECT_TRUE(PollForFrame(FrameType::kMessage).ok());
  client_->connection().Cancel(&call, absl::CancelledError("enough"));
}

}  // namespace
}  // namespace verbena::transport
