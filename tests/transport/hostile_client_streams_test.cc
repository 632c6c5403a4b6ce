// Clients that break the rules of streams: they lose their connection, and a
// good client goes on being served.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/transport/hostile_client_fixture.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/limits.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kDataBytes = kBufferBytes - sizeof(FrameHeader);

// Returns the MessageHeader that stands before a message.
std::string Announced(uint32_t message_bytes, uint32_t attachment_bytes = 0) {
  const MessageHeader header = {message_bytes, attachment_bytes};
  std::string text(sizeof(header), '\0');
  std::memcpy(text.data(), &header, sizeof(header));
  return text;
}

class HostileClientStreamsTest : public HostileClientFixture {
 protected:
  static RequestHeader StreamRequest(uint32_t call_id) {
    RequestHeader request = Request(call_id);
    request.frame.flags = kFlagStream;
    return request;
  }
  static FrameHeader Data(uint32_t call_id, uint8_t flags = 0) {
    FrameHeader data = Plain(FrameType::kData, call_id);
    data.flags = flags;
    return data;
  }
  static WindowHeader Window(uint32_t call_id, uint64_t limit) {
    WindowHeader window = {};
    window.frame = Plain(FrameType::kWindow, call_id);
    window.limit = limit;
    return window;
  }
  // An attachment of so many bytes at `offset` of the arena.
  static LongMessageHeader Message(uint32_t call_id, uint32_t offset,
                                   uint32_t bytes) {
    LongMessageHeader message = {};
    message.frame = Plain(FrameType::kMessage, call_id);
    message.frame.flags = kFlagAttachmentInArena;
    message.attachment_bytes = bytes;
    message.attachment_offset = offset;
    return message;
  }
  static LeaseHeader Lease(uint32_t call_id, uint32_t offset, uint32_t bytes) {
    LeaseHeader lease = {};
    lease.frame = Plain(FrameType::kLease, call_id);
    lease.offset = offset;
    lease.bytes = bytes;
    return lease;
  }
  // Returns a REQUEST that opens a stream, and DATA with `bytes` of the stream.
  std::vector<std::string> Stream(uint64_t bytes) {
    std::string body =
        Announced(static_cast<uint32_t>(bytes - sizeof(MessageHeader)));
    body.resize(bytes, 'x');
    std::vector<std::string> frames = {FrameText(StreamRequest(0))};
    for (size_t at = 0; at < body.size(); at += kDataBytes) {
      frames.push_back(FrameText(Data(0), body.substr(at, kDataBytes)));
    }
    return frames;
  }
};

TEST_F(HostileClientStreamsTest, MustNotSendDataOfACallThatDoesNotStream) {
  EXPECT_THAT(ByeTo({FrameText(Request(0)), FrameText(Data(0), "data")}),
              HasSubstr("of a call without them"));
  EXPECT_THAT(ByeTo({FrameText(Request(0)), FrameText(Window(0, 1))}),
              HasSubstr("of a call without them"));
}

TEST_F(HostileClientStreamsTest, MustNotBeginAStreamWithAMessage) {
  RequestHeader request = StreamRequest(0);
  request.message_bytes = 4;
  EXPECT_THAT(ByeTo({FrameText(request, "text")}),
              HasSubstr("stream with a message in its REQUEST"));
}

TEST_F(HostileClientStreamsTest, MustNotSendMoreThanTheWindow) {
  EXPECT_THAT(ByeTo(Stream(kStreamWindowBytes + 1)),
              HasSubstr("more of a stream than it may"));
}

TEST_F(HostileClientStreamsTest, MaySendAllOfTheWindowToAHandlerThatReadsNone) {
  RawPeer& raw = Opened();
  for (const std::string& frame : Stream(kStreamWindowBytes)) {
    ASSERT_TRUE(raw.Send(frame).ok());
  }
  ASSERT_TRUE(raw.Flush().ok());
  ASSERT_TRUE(raw.Send(FrameText(Plain(FrameType::kCancel, 0))).ok());
  EXPECT_TRUE(raw.Receive(FrameType::kResponse).ok());
}

TEST_F(HostileClientStreamsTest, MustNotGoOnBehindTheLastData) {
  EXPECT_THAT(
      ByeTo({FrameText(StreamRequest(0)), FrameText(Data(0, kFlagLastData)),
             FrameText(Data(0, kFlagLastData))}),
      HasSubstr("DATA behind its last"));
}

TEST_F(HostileClientStreamsTest, MustNotEndInTheMiddleOfAMessage) {
  for (const std::string& part :
       {Announced(10).substr(0, 3), Announced(10), Announced(10) + "123"}) {
    EXPECT_THAT(ByeTo({FrameText(StreamRequest(0)),
                       FrameText(Data(0, kFlagLastData), part)}),
                HasSubstr("in the middle of a message"));
  }
}

TEST_F(HostileClientStreamsTest, MustNotTakeAWindowBack) {
  EXPECT_THAT(ByeTo({FrameText(StreamRequest(0)),
                     FrameText(Window(0, kStreamWindowBytes - 1))}),
              HasSubstr("took back what it had allowed"));
}

TEST_F(HostileClientStreamsTest, MayAllowAnything) {
  RawPeer& raw = Opened();
  ASSERT_TRUE(raw.Send(FrameText(StreamRequest(0))).ok());
  ASSERT_TRUE(raw.Send(FrameText(Window(0, UINT64_MAX))).ok());
  ASSERT_TRUE(raw.Send(FrameText(Plain(FrameType::kCancel, 0))).ok());
  EXPECT_TRUE(raw.Receive(FrameType::kResponse).ok());
}

TEST_F(HostileClientStreamsTest, MayBeLateWithDataOfACallThatHasEnded) {
  RawPeer& raw = Opened();
  RequestHeader request = StreamRequest(0);
  request.method_id = kDiscard;
  ASSERT_TRUE(raw.Send(FrameText(request)).ok());
  ASSERT_TRUE(raw.Receive(FrameType::kResponse).ok());
  ASSERT_TRUE(raw.Send(FrameText(Data(0), Announced(100))).ok());
  ASSERT_TRUE(raw.Send(FrameText(Window(0, 1))).ok());
  request.frame.call_id = 0x10000;
  ASSERT_TRUE(raw.Send(FrameText(request)).ok());
  EXPECT_TRUE(raw.Receive(FrameType::kResponse).ok());
}

// The server looks at the announced length before any of it has come.
TEST_F(HostileClientStreamsTest, HearsThatAMessageIsTooLong) {
  const uint64_t most = TestOptions().max_receive_message_bytes;
  RawPeer& raw = Opened();
  ASSERT_TRUE(raw.Send(FrameText(StreamRequest(0))).ok());
  ASSERT_TRUE(
      raw.Send(FrameText(Data(0), Announced(static_cast<uint32_t>(most), 1)))
          .ok());
  // More of it is not looked at.
  ASSERT_TRUE(raw.Send(FrameText(Data(0), "more")).ok());
  const absl::StatusOr<std::string> response =
      raw.Receive(FrameType::kResponse);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(HeaderOf<ResponseHeader>(*response).code,
            static_cast<uint32_t>(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(*response, HasSubstr("SetMaxReceiveMessageSize"));
}

TEST_F(HostileClientStreamsTest, MustNotSendAMessageOfACallWithoutAStream) {
  EXPECT_THAT(ByeTo({FrameText(Request(0)), FrameText(Message(0, 0, 100000))}),
              HasSubstr("of a call without them"));
}

TEST_F(HostileClientStreamsTest, MustNotNameAMessageOutsideItsArenas) {
  EXPECT_THAT(ByeTo({FrameText(StreamRequest(0)),
                     FrameText(Message(0, kFirstArenaBytes - 99, 100))}),
              HasSubstr("attachment of a stream outside its arenas"));
  LongMessageHeader message = Message(0, 0, 0);
  message.frame.flags = kFlagMessageInArena;
  message.message_bytes = UINT32_MAX;
  message.message_arena = 1;
  EXPECT_THAT(ByeTo({FrameText(StreamRequest(0)), FrameText(message)}),
              HasSubstr("message of a stream outside its arenas"));
}

TEST_F(HostileClientStreamsTest, MustNotSendMoreMessagesThanItMay) {
  std::vector<std::string> frames = {FrameText(StreamRequest(0))};
  for (uint32_t i = 0; i <= kStreamLongMessages; ++i) {
    frames.push_back(FrameText(Message(0, 0, 100000)));
  }
  EXPECT_THAT(ByeTo(frames),
              HasSubstr("more MESSAGEs of a stream than it may"));
}

TEST_F(HostileClientStreamsTest, MustNotSendAMessageInTheMiddleOfAnother) {
  EXPECT_THAT(ByeTo({FrameText(StreamRequest(0)),
                     FrameText(Data(0), Announced(1000) + "part"),
                     FrameText(Message(0, 0, 100000))}),
              HasSubstr("in the middle of another"));
  EXPECT_THAT(
      ByeTo({FrameText(StreamRequest(0)), FrameText(Data(0, kFlagLastData)),
             FrameText(Message(0, 0, 100000))}),
      HasSubstr("MESSAGE behind its last"));
}

TEST_F(HostileClientStreamsTest, HearsThatAMessageInItsArenaIsTooLong) {
  const uint32_t most =
      static_cast<uint32_t>(TestOptions().max_receive_message_bytes);
  RawPeer::Options options;
  options.arena_bytes = uint64_t{most} + 4096;
  RawPeer& raw = Opened(options);
  ASSERT_TRUE(raw.Send(FrameText(StreamRequest(0))).ok());
  ASSERT_TRUE(raw.Send(FrameText(Message(0, 0, most + 1))).ok());
  const absl::StatusOr<std::string> response =
      raw.Receive(FrameType::kResponse);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(*response, HasSubstr("SetMaxReceiveMessageSize"));
}

TEST_F(HostileClientStreamsTest, MustNotLendAStreamWhatItMayNot) {
  std::vector<std::string> frames = {FrameText(StreamRequest(0))};
  frames.push_back(FrameText(Lease(0, kFirstArenaBytes - 99, 100)));
  EXPECT_THAT(ByeTo(frames), HasSubstr("for a stream outside its arenas"));
  frames.resize(1);
  for (uint32_t i = 0; i <= kStreamLongMessages; ++i) {
    frames.push_back(FrameText(Lease(0, i * 4096, 4096)));
  }
  EXPECT_THAT(ByeTo(frames), HasSubstr("too many leases"));
  frames.resize(1);
  LeaseHeader with_key = Lease(0, 0, 4096);
  with_key.rkey = 7;
  frames.push_back(FrameText(with_key));
  EXPECT_THAT(ByeTo(frames), HasSubstr("one with a key"));
}

TEST_F(HostileClientStreamsTest, MustNotAllowTheServersMessages) {
  WindowHeader window = Window(0, kStreamWindowBytes);
  window.message_limit = 1;
  EXPECT_THAT(ByeTo({FrameText(StreamRequest(0)), FrameText(window)}),
              HasSubstr("for which a server needs leases"));
}

TEST_F(HostileClientStreamsTest, MayBeLateWithMessagesAndLeases) {
  RawPeer& raw = Opened();
  RequestHeader request = StreamRequest(0);
  request.method_id = kDiscard;
  ASSERT_TRUE(raw.Send(FrameText(request)).ok());
  ASSERT_TRUE(raw.Receive(FrameType::kResponse).ok());
  ASSERT_TRUE(raw.Send(FrameText(Message(0, 0, 100000))).ok());
  ASSERT_TRUE(raw.Send(FrameText(Lease(0, 0, 100000))).ok());
  ASSERT_TRUE(raw.Send(FrameText(Lease(0, 0, 0))).ok());
  request.frame.call_id = 0x10000;
  ASSERT_TRUE(raw.Send(FrameText(request)).ok());
  EXPECT_TRUE(raw.Receive(FrameType::kResponse).ok());
}

// The READs are of its memory, and the RESPONSE says that they have ended.
TEST_F(HostileClientStreamsTest, MayCancelWhileItsMessagesAreRead) {
  RawPeer& raw = Opened();
  for (uint32_t round = 0; round < 100; ++round) {
    RequestHeader request = StreamRequest(round << 16);
    LongMessageHeader message = Message(round << 16, 0, 500000);
    message.frame.credit_limit = request.frame.credit_limit =
        raw.Header(FrameType::kMessage, 0).credit_limit;
    ASSERT_TRUE(raw.Send(FrameText(request)).ok());
    for (uint32_t i = 0; i < kStreamLongMessages; ++i) {
      ASSERT_TRUE(raw.Send(FrameText(message)).ok());
    }
    ASSERT_TRUE(
        raw.Send(FrameText(raw.Header(FrameType::kCancel, round << 16))).ok());
    ASSERT_TRUE(raw.Receive(FrameType::kResponse).ok()) << round;
  }
}

TEST_F(HostileClientStreamsTest, MayLeaveWhileItsMessagesAreRead) {
  for (int round = 0; round < 10; ++round) {
    RawPeer& raw = Opened();
    ASSERT_TRUE(raw.Send(FrameText(StreamRequest(0))).ok());
    for (uint32_t i = 0; i < kStreamLongMessages; ++i) {
      ASSERT_TRUE(raw.Send(FrameText(Message(0, i * 4096, 1000000))).ok());
    }
    ASSERT_TRUE(raw.Flush().ok());
    raw.Disconnect();
  }
  EXPECT_TRUE(server_.AwaitConnections(1));
}

TEST_F(HostileClientStreamsTest, MayLeaveWithItsStreamsOpen) {
  RawPeer& raw = Opened();
  for (uint32_t slot = 0; slot < kDefaultMaxOpenCalls; ++slot) {
    ASSERT_TRUE(raw.Send(FrameText(StreamRequest(slot))).ok());
    ASSERT_TRUE(raw.Send(FrameText(Data(slot), Announced(1000) + "part")).ok());
  }
  ASSERT_TRUE(server_.handler().AwaitHeld(kDefaultMaxOpenCalls));
  raw.Disconnect();
  EXPECT_TRUE(server_.handler().AwaitCancelled(kDefaultMaxOpenCalls));
}

}  // namespace
}  // namespace verbena::transport
