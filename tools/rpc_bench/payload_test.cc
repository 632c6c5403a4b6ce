#include "tools/rpc_bench/payload.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

namespace verbena::bench {
namespace {

absl::Span<uint8_t> BytesOf(std::string& text) {
  return {reinterpret_cast<uint8_t*>(text.data()), text.size()};
}

TEST(PayloadTest, DiffersFromPlaceToPlace) {
  const std::string payload = Payload(1024);
  EXPECT_EQ(payload.size(), 1024u);
  EXPECT_NE(payload.substr(0, 256), payload.substr(256, 256));
}

TEST(PayloadTest, AStampChangesIt) {
  std::string one = Payload(64);
  std::string other = Payload(64);
  Stamp(1, BytesOf(one));
  Stamp(2, BytesOf(other));
  EXPECT_NE(one, other);
  EXPECT_EQ(one.substr(8), other.substr(8));
}

TEST(PayloadTest, AStampFitsWhatIsThere) {
  std::string small = "abc";
  Stamp(~uint64_t{0}, BytesOf(small));
  EXPECT_EQ(small, "\xff\xff\xff");
  Stamp(1, {});
}

TEST(CheckEchoTest, ComparesLengthsAndIfAskedBytes) {
  std::string sent = "abcd";
  std::string other = "abce";
  EXPECT_EQ(CheckEcho(BytesOf(sent), BytesOf(sent), true), absl::OkStatus());
  EXPECT_EQ(CheckEcho(BytesOf(other), BytesOf(sent), false), absl::OkStatus());
  EXPECT_EQ(CheckEcho(BytesOf(other), BytesOf(sent), true),
            absl::DataLossError("other bytes came back than were sent"));
  EXPECT_EQ(CheckEcho(BytesOf(sent).subspan(1), BytesOf(sent), false),
            absl::DataLossError("3 bytes came back of 4"));
}

}  // namespace
}  // namespace verbena::bench
