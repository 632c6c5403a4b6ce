// How two sides find the version of the protocol that both speak.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "transport/wire/hello.h"
#include "transport/wire/sample_hellos.h"

namespace verbena::transport {
namespace {

using testing::HasSubstr;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

// Recorded bytes of the first release of version 8, which did not say its
// versions.
TEST(HelloVersionsTest, UnderstandsTheFirstReleaseOfVersion8) {
  const auto request = Request(absl::HexStringToBytes(
      "5652424e08013000"
      "10111213202130314041424344450000"
      "505152535455565760616263646566677071727300000000"));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->versions, std::nullopt);
  EXPECT_EQ(request->arena.rkey, SomeRequest().arena.rkey);
  EXPECT_EQ(VersionFor(*request), 8);
  const auto reply =
      Reply(absl::HexStringToBytes("5652424e08021800"
                                   "10111213202130314041424344450000"));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->version, 8);
  EXPECT_EQ(reply->versions, std::nullopt);
  const auto reject =
      Rejection(absl::HexStringToBytes("5652424e08030e00"
                                       "030066756c6c"));
  ASSERT_TRUE(reject.ok()) << reject.status();
  EXPECT_EQ(reject->text, "full");
}

// The first release took what stands behind the length for padding.
TEST(HelloVersionsTest, SaysTheVersionsBehindTheLength) {
  const std::string request = EncodeConnectRequest(SomeRequest());
  EXPECT_EQ(static_cast<uint8_t>(request[6]), request.size() - 8);
  const std::string reply = EncodeConnectReply({});
  EXPECT_EQ(static_cast<uint8_t>(reply[6]), reply.size() - 8);
  EXPECT_EQ(static_cast<uint8_t>(SomeReject()[6]), SomeReject().size() - 8);
}

TEST(HelloVersionsTest, TheHighestVersionInCommonIsSpoken) {
  const auto common = [](ProtocolVersions a, ProtocolVersions b) {
    EXPECT_EQ(CommonVersion(a, b).ok(), CommonVersion(b, a).ok());
    return CommonVersion(a, b).value_or(0);
  };
  EXPECT_EQ(common({8, 8}, {8, 8}), 8);
  EXPECT_EQ(common({8, 11}, {8, 9}), 9);
  EXPECT_EQ(common({8, 10}, {9, 12}), 10);
  EXPECT_EQ(common({8, 8}, {9, 9}), 0);
  EXPECT_EQ(common({8, 9}, {10, 9}), 0);
  const absl::Status newer = CommonVersion({8, 9}, {10, 11}).status();
  EXPECT_EQ(newer.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(newer.message()),
              HasSubstr("the peer speaks versions 10 to 11"));
  EXPECT_THAT(std::string(newer.message()), HasSubstr("which is this one"));
  EXPECT_THAT(
      std::string(CommonVersion({9, 9}, {8, 8}).status().message()),
      HasSubstr("this side only version 9: upgrade the older side, which is "
                "the peer"));
}

// A client of a later release offers several; its header has the lowest.
TEST(HelloVersionsTest, ALaterReleaseMaySpeakMore) {
  ConnectRequest later = SomeRequest();
  later.versions = ProtocolVersions{8, 11, 0x80};
  const auto request = Request(EncodeConnectRequest(later));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->versions, later.versions);
  EXPECT_EQ(VersionFor(*request), 8);
  const auto reply = Reply(EncodeConnectReply(
      {.limits = later.limits, .version = 8, .versions = later.versions}));
  EXPECT_TRUE(reply.ok()) << reply.status();
}

TEST(HelloVersionsTest, RefusesVersionsThatContradictEachOther) {
  const std::string request = EncodeConnectRequest(SomeRequest());
  const std::string reply =
      EncodeConnectReply({.limits = SomeRequest().limits});
  // The header has not the lowest; the chosen one is not spoken.
  EXPECT_EQ(Request(With(request, 4, "\x07")).status().code(), kInvalid);
  EXPECT_EQ(Reply(With(reply, 26, "\x09\x09")).status().code(), kInvalid);
}

TEST(HelloVersionsTest, NamesBothVersionsWhenTheyDiffer) {
  ConnectRequest request = SomeRequest();
  request.versions = ProtocolVersions{9, 9};
  const absl::Status status = Request(EncodeConnectRequest(request)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("speaks version 9"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("only version 8"));
  // In another version, the bytes behind the version may mean anything.
  EXPECT_EQ(
      Rejection(With(SomeReject(), 4, "\x09\x09\xff\xff")).status().code(),
      absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace verbena::transport
