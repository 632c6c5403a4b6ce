// Servers that do not keep to what frame.h says of METADATA, and clients that
// think better of a call whose metadata are on their way.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/transport/hostile_server_fixture.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/limits.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;

class HostileServerMetadataTest : public HostileServerFixture {
 protected:
  std::string Metadata(const RequestHeader& request, size_t bytes,
                       uint8_t flags = 0) {
    FrameHeader header =
        raw_->Header(FrameType::kMetadata, request.frame.call_id);
    header.flags = flags;
    return FrameText(header, std::string(bytes, 'm'));
  }
};

TEST_F(HostileServerMetadataTest, EndsCallsForMoreThanTheClientTakes) {
  for (const uint8_t flags : {uint8_t{0}, kFlagInitialMetadata}) {
    Opened();
    TestCall call("x");
    const RequestHeader request = StartAndReceive(call);
    ASSERT_TRUE(SendWhilePolling(Metadata(request, 8000, flags)).ok());
    ASSERT_TRUE(SendWhilePolling(Metadata(request, 193, flags)).ok());
    ExpectEnd(call, "more metadata than this client takes");
  }
}

TEST_F(HostileServerMetadataTest, EndsCallsForMetadataThatComeTwice) {
  for (const uint8_t flags : {uint8_t{0}, kFlagInitialMetadata}) {
    Opened();
    TestCall call("x");
    const RequestHeader request = StartAndReceive(call);
    const uint8_t last = flags | kFlagMetadataEnd;
    ASSERT_TRUE(SendWhilePolling(Metadata(request, 10, last)).ok());
    ASSERT_TRUE(SendWhilePolling(Metadata(request, 10, flags)).ok());
    ExpectEnd(call, "METADATA twice");
  }
}

TEST_F(HostileServerMetadataTest, EndsCallsForTrailingOnesInTheResponseToo) {
  Opened();
  TestCall call("x");
  const RequestHeader request = StartAndReceive(call);
  ASSERT_TRUE(SendWhilePolling(Metadata(request, 10, kFlagMetadataEnd)).ok());
  ResponseHeader response = Response(request);
  response.metadata_bytes = 3;
  ASSERT_TRUE(SendWhilePolling(FrameText(response, "abc")).ok());
  ExpectEnd(call, "trailing metadata twice");
}

TEST_F(HostileServerMetadataTest, EndsCallsForMetadataOfNoCall) {
  Opened();
  TestCall call("x");
  RequestHeader request = StartAndReceive(call);
  request.frame.call_id ^= 1;
  ASSERT_TRUE(SendWhilePolling(Metadata(request, 10)).ok());
  ExpectEnd(call, "METADATA of no open call");
}

// The server thought better of what it had begun to send.
TEST_F(HostileServerMetadataTest, DropsTrailingOnesThatDidNotEnd) {
  Opened();
  TestCall call("x");
  const RequestHeader request = StartAndReceive(call);
  ASSERT_TRUE(SendWhilePolling(Metadata(request, 10)).ok());
  ASSERT_TRUE(SendWhilePolling(FrameText(Response(request, 2), "ok")).ok());
  ASSERT_TRUE(client_->RunUntilDone(call));
  EXPECT_TRUE(call.status().ok()) << call.status();
  EXPECT_EQ(call.reply(), "ok");
  EXPECT_EQ(call.reply_metadata(), "");
  // The next call in the slot begins anew.
  TestCall next("x");
  const RequestHeader second = StartAndReceive(next);
  ASSERT_TRUE(SendWhilePolling(Metadata(second, 3, kFlagMetadataEnd)).ok());
  ASSERT_TRUE(SendWhilePolling(FrameText(Response(second, 2), "ok")).ok());
  ASSERT_TRUE(client_->RunUntilDone(next));
  EXPECT_EQ(next.reply_metadata(), "mmm");
}

TEST_F(HostileServerMetadataTest, IgnoresThoseOfACallThatWasCancelled) {
  Opened();
  TestCall call("x");
  const RequestHeader request = StartAndReceive(call);
  client_->connection().Cancel(&call, absl::CancelledError("given up"));
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(
        SendWhilePolling(Metadata(request, 8000, kFlagInitialMetadata)).ok());
  }
  ASSERT_TRUE(SendWhilePolling(FrameText(Response(request, 2), "ok")).ok());
  TestCall next("x");
  const RequestHeader second = StartAndReceive(next);
  ASSERT_TRUE(SendWhilePolling(FrameText(Response(second, 2), "ok")).ok());
  ASSERT_TRUE(client_->RunUntilDone(next));
  EXPECT_TRUE(next.status().ok());
}

// A server that gives one credit at a time stops the client amid the metadata.
TEST_F(HostileServerMetadataTest, HearsNoMoreOfACallThatIsGivenUpAmidThem) {
  RawPeer::Options stingy;
  stingy.credits = 1;
  RawPeer& raw = Opened(TestOptions(), stingy);
  TestCall::Options options;
  options.metadata = TestBytes(kDefaultMaxMetadataBytes);
  TestCall call("x", options);
  client_->Start(call);
  const absl::StatusOr<std::string> begun = raw.Receive(FrameType::kMetadata);
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->size(), kBufferBytes);
  const uint32_t call_id = HeaderOf<FrameHeader>(*begun).call_id;
  client_->connection().Cancel(&call, absl::CancelledError("given up"));
  EXPECT_EQ(call.status(), absl::CancelledError("given up"));
  EXPECT_FALSE(call.written());
  EXPECT_EQ(client_->connection().open_calls(), 0u);

  TestCall next("y");
  client_->Start(next);
  ASSERT_TRUE(SendWhilePolling(FrameText(raw.Header(FrameType::kPing))).ok());
  const absl::StatusOr<std::string> request = PollForFrame(FrameType::kRequest);
  ASSERT_TRUE(request.ok()) << request.status();
  const auto header = HeaderOf<RequestHeader>(*request);
  EXPECT_EQ(header.frame.call_id, call_id + 0x10000);
  ASSERT_TRUE(SendWhilePolling(FrameText(Response(header, 2), "ok")).ok());
  ASSERT_TRUE(client_->RunUntilDone(next));
  EXPECT_TRUE(next.status().ok());
}

}  // namespace
}  // namespace verbena::transport
