#include "transport/soft/memory/scatter_gather.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace verbena::soft {
namespace {

const auto* const kDomain = reinterpret_cast<const ProtectionDomain*>(0x1000);

class ScatterGatherTest : public testing::Test {
 protected:
  ibv_sge Entry(size_t offset, uint32_t length) {
    return {reinterpret_cast<uint64_t>(memory_.data() + offset), length, key_};
  }
  ScatterGatherList List() {
    return {&table_, kDomain, entries_.data(),
            static_cast<int>(entries_.size())};
  }
  std::string Gathered(uint64_t offset, uint32_t length) {
    std::string out(length, '?');
    EXPECT_TRUE(List().Gather(offset, length,
                              reinterpret_cast<std::byte*>(out.data())));
    return out;
  }

  std::string memory_ = "abcdefghijklmnopqrstuvwxyz";
  MemoryTable table_;
  uint32_t key_ =
      table_.Add(kDomain, reinterpret_cast<uint64_t>(memory_.data()),
                 memory_.size(), IBV_ACCESS_LOCAL_WRITE);
  std::vector<ibv_sge> entries_ = {Entry(0, 3), Entry(10, 0), Entry(20, 4),
                                   Entry(5, 1)};
};

TEST_F(ScatterGatherTest, AnyPartOfTheListIsGathered) {
  EXPECT_EQ(List().TotalBytes(), 8u);
  EXPECT_EQ(Gathered(0, 8), "abcuvwxf");
  EXPECT_EQ(Gathered(2, 3), "cuv");
  EXPECT_EQ(Gathered(3, 4), "uvwx");
  EXPECT_EQ(Gathered(7, 1), "f");
  EXPECT_EQ(Gathered(8, 0), "");
}

TEST_F(ScatterGatherTest, AnyPartOfTheListIsScattered) {
  const std::string text = "12345";
  EXPECT_TRUE(
      List().Scatter(2, 5, reinterpret_cast<const std::byte*>(text.data())));
  EXPECT_EQ(memory_.substr(0, 4), "ab1d");
  EXPECT_EQ(memory_.substr(20, 4), "2345");
}

TEST_F(ScatterGatherTest, AForeignEntryIsRefused) {
  entries_[2].lkey ^= 1;
  std::byte out[8];
  EXPECT_TRUE(List().Gather(0, 3, out));
  EXPECT_FALSE(List().Gather(0, 4, out));
  EXPECT_FALSE(List().Scatter(3, 1, out));
  EXPECT_FALSE(List().Allows(0));
}

TEST_F(ScatterGatherTest, AnEmptyEntryNeedsNoKey) {
  entries_[1].lkey = 0;
  EXPECT_TRUE(List().Allows(IBV_ACCESS_LOCAL_WRITE));
}

TEST(CopyBytesTest, EveryAlignmentAndLengthIsCopiedExactly) {
  std::vector<unsigned char> from(10'000);
  for (size_t i = 0; i < from.size(); ++i) from[i] = i * 7 + (i >> 8);
  for (size_t shift : {0, 1, 3, 16, 63}) {
    for (size_t length : {0, 1, 64, 1023, 1024, 1025, 2048, 2049, 5000}) {
      std::vector<unsigned char> to(from.size(), 0xee);
      CopyBytes(to.data() + shift, from.data() + 5, length);
      EXPECT_EQ(std::memcmp(to.data() + shift, from.data() + 5, length), 0);
      EXPECT_EQ(to[shift + length], 0xee);
      if (shift > 0) {
        EXPECT_EQ(to[shift - 1], 0xee);
      }
    }
  }
}

}  // namespace
}  // namespace verbena::soft
