#include "transport/base/buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <utility>

namespace verbena::transport {
namespace {

// Counts the blocks that come back to it.
class CountingOwner final : public BufferOwner {
 public:
  CountingOwner() {
    block_.owner = this;
    block_.data = bytes_;
    block_.bytes = sizeof(bytes_);
    block_.offset = 4096;
    block_.region = 3;
  }
  void Recycle(BufferBlock* /*block*/) override { ++recycled_; }

  Buffer Lease(size_t bytes) { return Buffer::Lease(&block_, bytes); }
  int recycled() const { return recycled_; }
  uint8_t* bytes() { return bytes_; }

 private:
  uint8_t bytes_[256];
  BufferBlock block_;
  int recycled_ = 0;
};

TEST(BufferTest, ComesBackWhenTheLastHandleIsGone) {
  CountingOwner owner;
  Buffer first = owner.Lease(100);
  Buffer second = first.Share();
  EXPECT_EQ(second.data(), first.data());
  EXPECT_EQ(second.size(), 100u);
  first.Reset();
  EXPECT_TRUE(first.empty());
  EXPECT_EQ(owner.recycled(), 0);
  second = Buffer();
  EXPECT_EQ(owner.recycled(), 1);
}

TEST(BufferTest, MovesWithoutAnotherHandle) {
  CountingOwner owner;
  {
    Buffer first = owner.Lease(100);
    Buffer second(std::move(first));
    EXPECT_TRUE(first.empty());  // NOLINT: what a moved-from one is.
    EXPECT_EQ(first.size(), 0u);
    Buffer& same = second;
    second = std::move(same);
    EXPECT_EQ(second.data(), owner.bytes());
    EXPECT_EQ(owner.recycled(), 0);
  }
  EXPECT_EQ(owner.recycled(), 1);
}

TEST(BufferTest, SharesNothingWhenEmpty) {
  Buffer empty;
  EXPECT_TRUE(empty.Share().empty());
  EXPECT_TRUE(empty.span().empty());
  empty.Reset();
}

TEST(BufferTest, NarrowsToAPartThatPeersCanName) {
  CountingOwner owner;
  Buffer buffer = owner.Lease(200);
  Buffer part = buffer.Share();
  part.Narrow(64, 100);
  EXPECT_EQ(part.data(), owner.bytes() + 64);
  EXPECT_EQ(part.size(), 100u);
  EXPECT_EQ(part.offset(), 4096u + 64);
  EXPECT_EQ(part.region(), 3u);
  EXPECT_EQ(part.room(), 256u - 64);
  EXPECT_EQ(buffer.size(), 200u);
}

TEST(BufferTest, HasPlainMemoryToo) {
  EXPECT_TRUE(Buffer::Plain(0).empty());
  for (const size_t bytes : {size_t{1}, size_t{63}, size_t{5000}}) {
    Buffer buffer = Buffer::Plain(bytes);
    EXPECT_EQ(buffer.size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    std::fill_n(buffer.data(), bytes, uint8_t{7});
    std::thread([other = buffer.Share()] {}).join();
    EXPECT_EQ(buffer.span()[bytes - 1], 7);
  }
}

TEST(BufferDeathTest, AbortsOnAPartThatItHasNot) {
  Buffer buffer = Buffer::Plain(100);
  EXPECT_DEATH(buffer.Narrow(50, 51), "51 bytes at 50 of 100");
  EXPECT_DEATH(buffer.Narrow(SIZE_MAX, 2), "Check failed");
  EXPECT_DEATH(buffer.Narrow(0, 0), "Check failed");
}

}  // namespace
}  // namespace verbena::transport
