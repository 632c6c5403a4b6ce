// Clients that do not keep to what frame.h says of METADATA.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/transport/hostile_client_fixture.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/limits.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kCall = 7;

class HostileClientMetadataTest : public HostileClientFixture {
 protected:
  static std::string Metadata(size_t bytes, uint8_t flags = 0,
                              uint32_t call_id = kCall) {
    FrameHeader header = Plain(FrameType::kMetadata, call_id);
    header.flags = flags;
    return FrameText(header, std::string(bytes, 'm'));
  }
  // Sends an echo of `message` as the call `call_id`. Returns the text behind
  // the header of the RESPONSE.
  std::string AnswerTo(RawPeer& raw, uint32_t call_id,
                       const std::string& message) {
    RequestHeader request = raw.InlineRequest(
        call_id, kEcho, static_cast<uint32_t>(message.size()));
    EXPECT_TRUE(raw.Send(FrameText(request, message)).ok());
    const absl::StatusOr<std::string> answer =
        raw.Receive(FrameType::kResponse);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->substr(sizeof(ResponseHeader)) : "";
  }
};

TEST_F(HostileClientMetadataTest, MustNotSendMoreThanTheServerTakes) {
  EXPECT_THAT(ByeTo({Metadata(5000), Metadata(3193)}),
              HasSubstr("more metadata than this server takes"));
  // In each slot again.
  std::vector<std::string> frames;
  for (uint32_t slot = 0; slot < 20; ++slot) {
    frames.push_back(Metadata(8000, 0, slot));
  }
  frames.push_back(Metadata(200, 0, 19));
  EXPECT_THAT(ByeTo(frames), HasSubstr("more metadata"));
}

TEST_F(HostileClientMetadataTest, MustNotSendMoreInTheRequestEither) {
  EndpointOptions options = TestOptions();
  options.max_metadata_bytes = 100;
  TestServer server(options);
  absl::StatusOr<std::unique_ptr<RawPeer>> raw =
      RawPeer::Create(server.address(), {});
  ASSERT_TRUE(raw.ok());
  ASSERT_TRUE((*raw)->Open().ok());
  RequestHeader request = Request(kCall);
  request.metadata_bytes = 101;
  ASSERT_TRUE((*raw)->Send(FrameText(request, std::string(101, 'm'))).ok());
  EXPECT_THAT((*raw)->AwaitBye(), HasSubstr("more metadata"));
}

TEST_F(HostileClientMetadataTest, MustEndMetadataBeforeTheCall) {
  EXPECT_THAT(ByeTo({Metadata(10), FrameText(Request(kCall))}),
              HasSubstr("amid its metadata"));
  RequestHeader request = Request(kCall);
  request.metadata_bytes = 10;
  EXPECT_THAT(ByeTo({Metadata(10, kFlagMetadataEnd),
                     FrameText(request, std::string(10, 'm'))}),
              HasSubstr("amid its metadata"));
  EXPECT_THAT(ByeTo({Metadata(10, kFlagMetadataEnd), Metadata(10)}),
              HasSubstr("METADATA twice"));
}

TEST_F(HostileClientMetadataTest, MustNotSendThoseOfAServerOrOfAnOpenCall) {
  EXPECT_THAT(ByeTo({Metadata(10, kFlagInitialMetadata)}),
              HasSubstr("initial METADATA"));
  EXPECT_THAT(ByeTo({FrameText(Request(kCall)), Metadata(10)}),
              HasSubstr("slot that is in use"));
  EXPECT_THAT(ByeTo({Metadata(10, 0, kDefaultMaxOpenCalls)}),
              HasSubstr("beyond the limit"));
}

TEST_F(HostileClientMetadataTest, MayGiveUpACallBeforeItBegins) {
  RawPeer& raw = Opened();
  ASSERT_TRUE(raw.Send(Metadata(8000)).ok());
  // The next generation of the slot knows nothing of them.
  constexpr uint32_t kNext = kCall + 0x10000;
  EXPECT_EQ(AnswerTo(raw, kNext, "message"), "message");
  ASSERT_TRUE(raw.Send(Metadata(8000, 0, kNext + 0x10000)).ok());
  constexpr uint32_t kLast = kCall + 0x30000;
  ASSERT_TRUE(raw.Send(Metadata(5, kFlagMetadataEnd, kLast)).ok());
  EXPECT_EQ(AnswerTo(raw, kLast, "message"), "mmmmmmessage");
}

}  // namespace
}  // namespace verbena::transport
