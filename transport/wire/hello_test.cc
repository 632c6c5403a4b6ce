#include "transport/wire/hello.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "transport/base/limits.h"
#include "transport/wire/sample_hellos.h"

namespace verbena::transport {
namespace {

using testing::HasSubstr;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kPrecondition =
    absl::StatusCode::kFailedPrecondition;

// The bytes of version 8. A change here is a change of the protocol.
TEST(HelloTest, KeepsTheBytesOfTheConnectRequest) {
  EXPECT_EQ(absl::BytesToHexString(EncodeConnectRequest(SomeRequest())),
            "5652424e08013000"
            "10111213202130314041424344450000"
            "505152535455565760616263646566677071727300000000"
            "7673080800000000");
}

TEST(HelloTest, KeepsTheBytesOfTheConnectReply) {
  EXPECT_EQ(absl::BytesToHexString(
                EncodeConnectReply({.limits = SomeRequest().limits})),
            "5652424e08021800"
            "10111213202130314041424344450000"
            "7673080800000000");
}

TEST(HelloTest, KeepsTheBytesOfARejection) {
  EXPECT_EQ(absl::BytesToHexString(SomeReject()),
            "5652424e08030e00"
            "030066756c6c"
            "7673080800000000");
}

TEST(HelloTest, KeepsTheBytesOfOptions) {
  EXPECT_EQ(absl::BytesToHexString(
                EncodeOptions({{.type = kOptionUserAgent, .value = "ab"},
                               {.type = kOptionCredentials, .value = ""}})),
            "010002006162"
            "02000000");
}

TEST(HelloTest, FindsAnOptionByItsType) {
  const std::vector<HelloOption> options = {
      {.type = kOptionUserAgent, .value = "ab"},
      {.type = kOptionCredentials, .value = ""}};
  ASSERT_NE(FindOption(options, kOptionCredentials), nullptr);
  EXPECT_EQ(*FindOption(options, kOptionCredentials), "");
  EXPECT_EQ(*FindOption(options, kOptionUserAgent), "ab");
  EXPECT_EQ(FindOption(options, kOptionCredentialsKind), nullptr);
}

TEST(HelloTest, EveryBitOfTheHellosCounts) {
  const ConnectRequest request = SomeRequest();
  ConnectReply reply = {.limits = request.limits};
  // The versions count only if both peers say theirs.
  ConnectReply first_release = reply;
  first_release.versions = std::nullopt;
  ConnectRequest first_client = request;
  first_client.versions = std::nullopt;
  EXPECT_EQ(HellosText(request, first_release, "body"),
            HellosText(first_client, first_release, "body"));
  EXPECT_EQ(HellosText(first_client, reply, "body"),
            HellosText(first_client, first_release, "body"));
  const std::string text = HellosText(request, reply, "body");
  reply.versions->highest = 9;
  EXPECT_NE(HellosText(request, reply, "body"), text);
  reply.versions->highest = 8;
  EXPECT_EQ(HellosText(request, reply, "body"), text);
  EXPECT_NE(HellosText(request, reply, "bodz"), text);
  EXPECT_NE(HellosText(request, {}, "body"), text);
  ConnectRequest other = request;
  other.arena.rkey ^= 1;
  EXPECT_NE(HellosText(other, reply, "body"), text);
  other = request;
  other.arena.address ^= 1;
  EXPECT_NE(HellosText(other, reply, "body"), text);
  other = request;
  other.arena.bytes ^= 1;
  EXPECT_NE(HellosText(other, reply, "body"), text);
}

TEST(HelloTest, FitsWhatTheConnectionManagerCarries) {
  EXPECT_LE(EncodeConnectRequest(SomeRequest()).size(),
            kConnectPrivateBytesMax);
  EXPECT_LE(EncodeConnectReply({}).size(), kAcceptPrivateBytesMax);
  EXPECT_LE(EncodeReject({.reason = RejectReason::kFull,
                          .text = std::string(10000, 'x')})
                .size(),
            kRejectPrivateBytesMax);
}

TEST(HelloTest, ReadsWhatItWrote) {
  const auto request = Request(EncodeConnectRequest(SomeRequest()));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->limits.buffer_bytes, 0x13121110u);
  EXPECT_EQ(request->limits.credits, 0x2120);
  EXPECT_EQ(request->limits.max_open_calls, 0x3130);
  EXPECT_EQ(request->limits.max_receive_message_bytes, 0x43424140u);
  EXPECT_EQ(request->limits.max_metadata_bytes, 0x4544u);
  EXPECT_EQ(request->arena.address, 0x5756555453525150u);
  EXPECT_EQ(request->arena.bytes, 0x6766656463626160u);
  EXPECT_EQ(request->arena.rkey, 0x73727170u);

  const auto reply = Reply(EncodeConnectReply({.limits = request->limits}));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->limits.credits, 0x2120);

  const auto reject = Rejection(SomeReject());
  ASSERT_TRUE(reject.ok()) << reject.status();
  EXPECT_EQ(reject->reason, RejectReason::kFull);
  EXPECT_EQ(reject->text, "full");
}

TEST(HelloTest, IgnoresPadding) {
  const std::string padding(200, '\0');
  EXPECT_TRUE(Request(EncodeConnectRequest(SomeRequest()) + padding).ok());
  EXPECT_TRUE(
      Reply(EncodeConnectReply({.limits = SomeRequest().limits}) + padding)
          .ok());
  EXPECT_EQ(Rejection(SomeReject() + padding)->text, "full");
}

TEST(HelloTest, RefusesEveryTruncation) {
  const std::string request = EncodeConnectRequest(SomeRequest());
  const std::string reply =
      EncodeConnectReply({.limits = SomeRequest().limits});
  // The versions may be missing.
  constexpr size_t kVersionsBytes = 8;
  for (size_t n = 0; n + kVersionsBytes < request.size(); ++n) {
    EXPECT_EQ(Request(request.substr(0, n)).status().code(), kInvalid) << n;
  }
  for (size_t n = 0; n + kVersionsBytes < reply.size(); ++n) {
    EXPECT_EQ(Reply(reply.substr(0, n)).status().code(), kInvalid) << n;
  }
  for (size_t n = 0; n + kVersionsBytes < SomeReject().size(); ++n) {
    EXPECT_EQ(Rejection(SomeReject().substr(0, n)).status().code(), kInvalid)
        << n;
  }
}

TEST(HelloTest, RefusesEveryOtherLength) {
  const std::string request =
      EncodeConnectRequest(SomeRequest()) + std::string(100, '\0');
  for (int bytes = 0; bytes < 256; ++bytes) {
    const char length[] = {static_cast<char>(bytes), 0};
    EXPECT_EQ(Request(With(request, 6, absl::string_view(length, 2))).ok(),
              bytes == 48)
        << bytes;
  }
  EXPECT_EQ(Request(With(request, 6, "\xff\xff")).status().code(), kInvalid);
}

TEST(HelloTest, RefusesWhatIsNotVerbena) {
  const absl::Status status =
      Request("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n").status();
  EXPECT_EQ(status.code(), kInvalid);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("begin with 0x20544547"));
  EXPECT_EQ(Request(std::string(56, '\0')).status().code(), kInvalid);
  EXPECT_EQ(Reply("").status().code(), kInvalid);
}

TEST(HelloTest, RefusesOneKindForAnother) {
  const std::string reply =
      EncodeConnectReply({.limits = SomeRequest().limits});
  EXPECT_EQ(Request(reply).status().code(), kInvalid);
  EXPECT_EQ(Rejection(reply).status().code(), kInvalid);
  EXPECT_EQ(Reply(SomeReject()).status().code(), kInvalid);
}

TEST(HelloTest, RefusesLimitsOutOfRange) {
  const auto verdict = [](PeerLimits limits) {
    return std::string(
        Reply(EncodeConnectReply({.limits = limits})).status().message());
  };
  const PeerLimits kLeast = {.buffer_bytes = kMinBufferBytes,
                             .credits = kMinCredits,
                             .max_open_calls = 1,
                             .max_receive_message_bytes = 1,
                             .max_metadata_bytes = 0};
  EXPECT_EQ(verdict(kLeast), "");
  PeerLimits limits = kLeast;
  --limits.buffer_bytes;
  EXPECT_THAT(verdict(limits), HasSubstr("buffer_bytes is 4127"));
  limits = kLeast;
  --limits.credits;
  EXPECT_THAT(verdict(limits), HasSubstr("credits is 0"));
  limits = kLeast;
  limits.max_open_calls = 0;
  EXPECT_THAT(verdict(limits), HasSubstr("max_open_calls is 0"));
  limits = kLeast;
  limits.max_receive_message_bytes = 0;
  EXPECT_THAT(verdict(limits), HasSubstr("max_receive_message_bytes is 0"));
  limits.max_receive_message_bytes = kMaxMessageBytes;
  EXPECT_EQ(verdict(limits), "");
  ++limits.max_receive_message_bytes;
  EXPECT_THAT(verdict(limits),
              HasSubstr("max_receive_message_bytes is 2147483649"));
  limits = kLeast;
  limits.max_metadata_bytes = kMaxMetadataBytes;
  EXPECT_EQ(verdict(limits), "");
  ++limits.max_metadata_bytes;
  EXPECT_THAT(verdict(limits), HasSubstr("max_metadata_bytes is 65536"));
}

TEST(HelloTest, RefusesUnusedFieldsThatAreNotZero) {
  const std::string request = EncodeConnectRequest(SomeRequest());
  for (const size_t offset : {44, 47}) {
    EXPECT_EQ(Request(With(request, offset, "\x01")).status().code(), kInvalid);
  }
}

TEST(HelloTest, RefusesArenasThatWrapAround) {
  ConnectRequest request = SomeRequest();
  request.arena = {.address = UINT64_MAX - 4096, .bytes = 4096};
  EXPECT_TRUE(Request(EncodeConnectRequest(request)).ok());
  request.arena.bytes = 4097;
  const absl::Status status = Request(EncodeConnectRequest(request)).status();
  EXPECT_EQ(status.code(), kInvalid);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("4097 bytes at 0xffffffffffffefff wraps around"));
  request.arena = {.address = 1, .bytes = UINT64_MAX};
  EXPECT_EQ(Request(EncodeConnectRequest(request)).status().code(), kInvalid);
  request.arena = {.address = 4096, .bytes = 0};
  EXPECT_EQ(Request(EncodeConnectRequest(request)).status().code(), kInvalid);
}

TEST(HelloTest, CutsTheTextOfARejectionBetweenCharacters) {
  // The limit of 130 bytes would fall inside the 43rd of these characters.
  const std::string text = "ab" + std::string(150, ' ');
  std::string euros = "ab";
  for (int i = 0; i < 50; ++i) euros += "\xe2\x82\xac";
  const auto spaces =
      Rejection(EncodeReject({.reason = RejectReason::kFull, .text = text}));
  EXPECT_EQ(spaces->text.size(), 130u);
  const auto cut =
      Rejection(EncodeReject({.reason = RejectReason::kFull, .text = euros}));
  EXPECT_EQ(cut->text, euros.substr(0, 2 + 42 * 3));
}

TEST(HelloTest, RefusesUnknownReasons) {
  EXPECT_EQ(Rejection(With(SomeReject(), 8, absl::string_view("\0\0", 2)))
                .status()
                .code(),
            kInvalid);
  EXPECT_EQ(Rejection(With(SomeReject(), 8, "\x06")).status().code(), kInvalid);
}

TEST(HelloTest, TellsTheCallerWhyItWasRejected) {
  const auto status = [](RejectReason reason) {
    return RejectStatus({.reason = reason, .text = "a\nb"});
  };
  EXPECT_EQ(status(RejectReason::kBadHello).code(), kPrecondition);
  EXPECT_EQ(status(RejectReason::kBadVersion).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(status(RejectReason::kFull).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status(RejectReason::kShuttingDown).code(),
            absl::StatusCode::kUnavailable);
  // The peer's text cannot break the line.
  EXPECT_THAT(std::string(status(RejectReason::kFull).message()),
              HasSubstr("a\\nb"));
}

TEST(HelloTest, SaysOnceWhyItWasRejected) {
  const std::string said(
      RejectStatus({RejectReason::kShuttingDown, "the server is shutting down"})
          .message());
  EXPECT_THAT(said, testing::EndsWith("connection: the server is shutting "
                                      "down"));
  EXPECT_THAT(std::string(RejectStatus({RejectReason::kFull, ""}).message()),
              HasSubstr("no room"));
  // The text may give another reason: the server serves another device only.
  EXPECT_THAT(std::string(RejectStatus({RejectReason::kFull, "x"}).message()),
              testing::Not(HasSubstr("no room")));
}

TEST(HelloTest, ReadsTheOptionsItKnows) {
  const auto options = Options(EncodeOptions({{.type = 77, .value = "new"},
                                              {.type = 2, .value = "secret"},
                                              {.type = 1, .value = ""}}));
  ASSERT_TRUE(options.ok()) << options.status();
  ASSERT_EQ(options->size(), 2u);
  EXPECT_EQ((*options)[0].type, kOptionCredentials);
  EXPECT_EQ((*options)[0].value, "secret");
  EXPECT_EQ((*options)[1].type, kOptionUserAgent);
  EXPECT_EQ((*options)[1].value, "");
  EXPECT_TRUE(Options("")->empty());
}

TEST(HelloTest, CarriesOptionsOfEverySize) {
  const std::string longest(65535, 'x');
  EXPECT_EQ(
      Options(EncodeOptions({{.type = 1, .value = longest}}))->front().value,
      longest);
}

TEST(HelloTest, RefusesUnknownOptionsThatAreCritical) {
  const absl::Status status =
      Options(EncodeOptions({{.type = kCriticalOption | 9, .value = ""}}))
          .status();
  EXPECT_EQ(status.code(), kPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("option 9"));
}

TEST(HelloTest, RefusesAnOptionThatComesTwice) {
  EXPECT_EQ(Options(EncodeOptions(
                        {{.type = 2, .value = "a"}, {.type = 2, .value = "b"}}))
                .status()
                .code(),
            kInvalid);
}

TEST(HelloTest, RefusesTruncatedOptions) {
  const std::string body =
      EncodeOptions({{.type = 1, .value = "abc"}, {.type = 2, .value = "de"}});
  for (size_t n = 0; n <= body.size(); ++n) {
    const bool whole = n == 0 || n == 7 || n == body.size();
    EXPECT_EQ(Options(body.substr(0, n)).ok(), whole) << n;
  }
}

TEST(HelloTest, AskForChecksumsThatThisSideHas) {
  const auto asks = [](const std::vector<HelloOption>& options) {
    const std::string body = EncodeOptions(options);
    const absl::StatusOr<std::vector<HelloOption>> decoded =
        DecodeOptions(absl::MakeConstSpan(
            reinterpret_cast<const uint8_t*>(body.data()), body.size()));
    EXPECT_TRUE(decoded.ok()) << decoded.status();
    return AsksForChecksum(*decoded);
  };
  EXPECT_FALSE(asks({}).value());
  EXPECT_FALSE(asks({{kOptionUserAgent, "crc32c"}}).value());
  EXPECT_TRUE(asks({{kOptionChecksum, "crc32c"}}).value());
  for (const char* const other : {"", "crc32", "crc32c ", "xxh3\n"}) {
    const absl::Status status = asks({{kOptionChecksum, other}}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_NE(status.message().find("knows only crc32c"), std::string::npos);
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
  }
}

// So that a release without them refuses whoever wants them.
TEST(HelloTest, WhoDoesNotKnowWhatMethodNamesAreSkipsThem) {
  EXPECT_EQ(kOptionMethodNames & kCriticalOption, 0);
}

TEST(HelloTest, WhoDoesNotKnowWhatTrainsAreSkipsThem) {
  EXPECT_EQ(kOptionTrains & kCriticalOption, 0);
}

TEST(HelloTest, KnowsTrainsWithoutAValue) {
  const std::string body = EncodeOptions({{kOptionTrains, ""}});
  EXPECT_EQ(absl::BytesToHexString(body), "06000000");
  const auto options = Options(body);
  ASSERT_TRUE(options.ok()) << options.status();
  ASSERT_NE(FindOption(*options, kOptionTrains), nullptr);
  EXPECT_EQ(*FindOption(*options, kOptionTrains), "");
  EXPECT_EQ(Options(body + body).status().code(), kInvalid);
}

TEST(HelloTest, KnowsAddressesWhichMayBeSkipped) {
  EXPECT_EQ(kOptionAddresses & kCriticalOption, 0);
  const std::string body = EncodeOptions({{kOptionAddresses, "5ab0"}});
  EXPECT_EQ(absl::BytesToHexString(body), "0700040035616230");
  const auto options = Options(body);
  ASSERT_TRUE(options.ok()) << options.status();
  ASSERT_NE(FindOption(*options, kOptionAddresses), nullptr);
}

TEST(HelloTest, ChecksumsAreCritical) { EXPECT_EQ(kOptionChecksum, 0x8004); }

}  // namespace
}  // namespace verbena::transport
