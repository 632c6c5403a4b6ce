#include "tools/load/workload.h"

#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace verbena::bench {
namespace {

TEST(SizeNameTest, UsesTheLargestUnitThatFits) {
  EXPECT_EQ(SizeName(0), "0 B");
  EXPECT_EQ(SizeName(64), "64 B");
  EXPECT_EQ(SizeName(1025), "1025 B");
  EXPECT_EQ(SizeName(4096), "4 KiB");
  EXPECT_EQ(SizeName(1 << 20), "1 MiB");
}

TEST(PayloadTest, DiffersFromPlaceToPlace) {
  const std::string payload = Payload(1024);
  EXPECT_EQ(payload.size(), 1024u);
  EXPECT_NE(payload.substr(0, 256), payload.substr(256, 256));
}

TEST(EchoCheckTest, StampsEachCallIfAllAreCompared) {
  std::string payload = Payload(64);
  EchoCheck first_only(false);
  first_only.Stamp(BytesOf(payload));
  EXPECT_EQ(payload, Payload(64));
  EchoCheck all(true);
  all.Stamp(BytesOf(payload));
  const std::string one = payload;
  all.Stamp(BytesOf(payload));
  EXPECT_NE(payload, one);
  EXPECT_EQ(payload.substr(8), Payload(64).substr(8));
}

TEST(EchoCheckTest, AStampFitsWhatIsThere) {
  std::string small = "abc";
  EchoCheck all(true);
  all.Stamp({});
  all.Stamp(BytesOf(small));
  EXPECT_EQ(small, std::string("\1\0\0", 3));
}

TEST(EchoCheckTest, ComparesLengthsAndTheContentsOfTheFirstThatIsRight) {
  const std::string sent = "abcd";
  const std::string other = "abce";
  const absl::Status wrong =
      absl::DataLossError("other bytes came back than were sent");
  for (const bool every : {false, true}) {
    EchoCheck check(every);
    EXPECT_EQ(check.Compare(BytesOf(other), BytesOf(sent)), wrong);
    EXPECT_EQ(check.Compare(BytesOf(sent), BytesOf(sent)), absl::OkStatus());
    EXPECT_EQ(check.Compare(BytesOf(other), BytesOf(sent)),
              every ? wrong : absl::OkStatus());
    EXPECT_EQ(check.Compare(BytesOf(sent).subspan(1), BytesOf(sent)),
              absl::DataLossError("3 bytes came back of 4"));
  }
}

}  // namespace
}  // namespace verbena::bench
