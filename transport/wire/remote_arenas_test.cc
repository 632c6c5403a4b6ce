#include "transport/wire/remote_arenas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"

namespace verbena::transport {
namespace {

using testing::HasSubstr;

constexpr ArenaDescriptor kArena = {
    .address = 0x10000, .bytes = 8192, .rkey = 7};

TEST(RemoteArenasTest, KnowsNothingAtFirst) {
  const RemoteArenas arenas;
  RemoteArenas::RemoteRange range;
  EXPECT_FALSE(arenas.Find(0, 0, 1, &range));
}

TEST(RemoteArenasTest, FindsRangesInTheArenaThatIsNamed) {
  RemoteArenas arenas;
  ASSERT_TRUE(arenas.Add(0, kArena).ok());
  ASSERT_TRUE(
      arenas.Add(1, {.address = 0x90000, .bytes = 4096, .rkey = 8}).ok());

  RemoteArenas::RemoteRange range;
  ASSERT_TRUE(arenas.Find(0, 0, 8192, &range));
  EXPECT_EQ(range.address, 0x10000u);
  EXPECT_EQ(range.rkey, 7u);
  ASSERT_TRUE(arenas.Find(1, 4095, 1, &range));
  EXPECT_EQ(range.address, 0x90fffu);
  EXPECT_EQ(range.rkey, 8u);
}

TEST(RemoteArenasTest, FindsNothingThatIsNotWhollyInside) {
  RemoteArenas arenas;
  ASSERT_TRUE(arenas.Add(0, kArena).ok());
  RemoteArenas::RemoteRange range = {.address = 1, .rkey = 2};
  EXPECT_FALSE(arenas.Find(0, 0, 8193, &range));
  EXPECT_FALSE(arenas.Find(0, 1, 8192, &range));
  EXPECT_FALSE(arenas.Find(0, 8191, 2, &range));
  EXPECT_FALSE(arenas.Find(0, 8192, 1, &range));
  EXPECT_FALSE(arenas.Find(0, 8193, 1, &range));
  EXPECT_FALSE(arenas.Find(0, UINT32_MAX, 1, &range));
  EXPECT_FALSE(arenas.Find(0, 1, UINT64_MAX, &range));  // The sum is 0.
  EXPECT_FALSE(arenas.Find(0, 100, 0, &range));
  EXPECT_FALSE(arenas.Find(1, 0, 1, &range));
  EXPECT_FALSE(arenas.Find(UINT16_MAX, 0, 1, &range));
  EXPECT_EQ(range.address, 1u);
  EXPECT_EQ(range.rkey, 2u);
}

TEST(RemoteArenasTest, ReachesTheEndOfTheAddressSpace) {
  RemoteArenas arenas;
  ASSERT_TRUE(
      arenas.Add(0, {.address = UINT64_MAX - 4096, .bytes = 4096}).ok());
  RemoteArenas::RemoteRange range;
  EXPECT_TRUE(arenas.Find(0, 4095, 1, &range));
  EXPECT_EQ(range.address, UINT64_MAX - 1);
  EXPECT_FALSE(arenas.Find(0, 4095, 2, &range));
}

TEST(RemoteArenasTest, RefusesArenasThatWrapAroundOrAreEmpty) {
  RemoteArenas arenas;
  EXPECT_EQ(arenas.Add(0, {.address = UINT64_MAX - 4096, .bytes = 4097}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(arenas.Add(0, {.address = 4096, .bytes = 0}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(arenas.Add(0, kArena).ok());
}

TEST(RemoteArenasTest, TakesAnIndexOnce) {
  RemoteArenas arenas;
  EXPECT_TRUE(arenas.Add(2, kArena).ok());
  EXPECT_TRUE(arenas.Add(0, kArena).ok());
  const absl::Status again = arenas.Add(2, kArena);
  EXPECT_EQ(again.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(again.message()), HasSubstr("arena 2 twice"));
}

TEST(RemoteArenasTest, ForgetsWhatIsWithdrawn) {
  RemoteArenas arenas;
  ASSERT_TRUE(arenas.Add(0, kArena).ok());
  ASSERT_TRUE(arenas.Add(1, kArena).ok());
  ASSERT_TRUE(arenas.Add(2, kArena).ok());
  EXPECT_TRUE(arenas.Remove(1).ok());
  RemoteArenas::RemoteRange range;
  EXPECT_FALSE(arenas.Find(1, 0, 1, &range));
  EXPECT_TRUE(arenas.Find(2, 0, 1, &range));
  ASSERT_TRUE(
      arenas.Add(1, {.address = 0x90000, .bytes = 4096, .rkey = 8}).ok());
  ASSERT_TRUE(arenas.Find(1, 0, 4096, &range));
  EXPECT_EQ(range.address, 0x90000u);
}

TEST(RemoteArenasTest, RefusesToForgetWhatItMayNot) {
  RemoteArenas arenas;
  ASSERT_TRUE(arenas.Add(0, kArena).ok());
  ASSERT_TRUE(arenas.Add(1, kArena).ok());
  EXPECT_TRUE(arenas.Remove(1).ok());
  for (const uint32_t index : {0u, 1u, 2u, kMaxArenas, uint32_t{UINT16_MAX}}) {
    EXPECT_EQ(arenas.Remove(static_cast<uint16_t>(index)).code(),
              absl::StatusCode::kInvalidArgument)
        << index;
  }
  RemoteArenas::RemoteRange range;
  EXPECT_TRUE(arenas.Find(0, 0, 1, &range));
}

TEST(RemoteArenasTest, TakesNoMoreThanTheLimit) {
  RemoteArenas arenas;
  for (uint16_t i = 0; i < kMaxArenas; ++i) {
    EXPECT_TRUE(arenas.Add(i, kArena).ok());
  }
  const absl::Status status = arenas.Add(kMaxArenas, kArena);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("only 16"));
}

}  // namespace
}  // namespace verbena::transport
