// The regions of a BufferPool that nobody uses, and how they are given back.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "transport/base/test_seed.h"
#include "transport/memory/buffer_pool.h"
#include "transport/memory/fake_registrar.h"

namespace verbena::transport {
namespace {

constexpr uint64_t kMega = uint64_t{1} << 20;
constexpr absl::Duration kIdle = absl::Seconds(5);

class IdleRegionsTest : public testing::Test {
 protected:
  std::unique_ptr<BufferPool> Pool(uint64_t floor_bytes, uint64_t max_bytes,
                                   uint64_t largest_bytes = 0,
                                   uint32_t max_regions = 16) {
    absl::StatusOr<std::unique_ptr<BufferPool>> pool =
        BufferPool::Create(device_.pd(), {.access = IBV_ACCESS_LOCAL_WRITE,
                                          .first_region_bytes = kMega,
                                          .max_bytes = max_bytes,
                                          .max_regions = max_regions,
                                          .largest_bytes = largest_bytes,
                                          .floor_bytes = floor_bytes,
                                          .idle_time = kIdle});
    EXPECT_TRUE(pool.ok()) << pool.status();
    return *std::move(pool);
  }

  // Does what owners do at every tick. Returns the indices of the regions that
  // it gave back.
  std::vector<uint32_t> GiveBack(BufferPool& pool) {
    std::vector<uint32_t> indices;
    while (pool.FindIdle(now_)) {
      const std::optional<BufferPool::TakenRegion> taken = pool.TakeIdle();
      if (taken.has_value()) indices.push_back(taken->index);
    }
    return indices;
  }
  // Does so after some time in which nothing happened.
  std::vector<uint32_t> GiveBackAfter(absl::Duration time, BufferPool& pool) {
    now_ += time;
    return GiveBack(pool);
  }

  FakeRegistrar device_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
};

using Indices = std::vector<uint32_t>;

TEST_F(IdleRegionsTest, GoWhenTwoLooksHaveFoundNothingInThem) {
  const auto pool = Pool(kMega, 256 * kMega);
  EXPECT_EQ(pool->NextLook(), absl::InfiniteFuture());
  pool->Allocate(64 * kMega)->Reset();
  pool->Allocate(100 * kMega)->Reset();
  EXPECT_EQ(pool->registered_bytes(), 193 * kMega);
  EXPECT_LE(pool->NextLook(), now_);
  EXPECT_EQ(GiveBack(*pool), Indices());
  EXPECT_EQ(pool->NextLook(), now_ + kIdle);
  EXPECT_EQ(GiveBackAfter(kIdle - absl::Milliseconds(1), *pool), Indices());
  EXPECT_EQ(GiveBackAfter(absl::Milliseconds(1), *pool), (Indices{2, 1}));
  EXPECT_EQ(pool->registered_bytes(), kMega);
  EXPECT_EQ(pool->region_count(), 1u);
  EXPECT_EQ(pool->NextLook(), absl::InfiniteFuture());
  EXPECT_EQ(device_.live(), 1);
}

TEST_F(IdleRegionsTest, StayWhileAnythingInThemIsAllocated) {
  const auto pool = Pool(kMega, 256 * kMega);
  const Buffer first = *pool->Allocate(kMega);
  Buffer second = *pool->Allocate(2 * kMega);
  second.Narrow(0, 1);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(GiveBackAfter(kIdle, *pool), Indices());
  }
  second.Reset();
  EXPECT_EQ(GiveBackAfter(kIdle, *pool), Indices());
  EXPECT_EQ(GiveBackAfter(kIdle, *pool), Indices{1});
}

TEST_F(IdleRegionsTest, StayWhenTheyWereUsedBetweenTwoLooks) {
  const auto pool = Pool(kMega, 256 * kMega);
  for (int i = 0; i < 10; ++i) {
    pool->Allocate(64 * kMega)->Reset();
    EXPECT_EQ(GiveBackAfter(kIdle, *pool), Indices());
    // A look has emptied the list: the first block fills it again, and the
    // second comes from it.
    pool->Allocate(64 * kMega)->Reset();
    pool->Allocate(64 * kMega)->Reset();
  }
  EXPECT_EQ(pool->regions_added(), 2u);
}

TEST_F(IdleRegionsTest, StayAboveTheFloorOnly) {
  const auto pool = Pool(8 * kMega, 256 * kMega);
  std::vector<Buffer> buffers;
  for (const uint64_t megas : {1, 2, 4, 8, 16}) {
    buffers.push_back(*pool->Allocate(megas * kMega));
  }
  buffers.clear();
  EXPECT_EQ(GiveBack(*pool), Indices());
  EXPECT_EQ(GiveBackAfter(kIdle, *pool), (Indices{4, 3}));
  EXPECT_EQ(pool->registered_bytes(), 7 * kMega);
  EXPECT_EQ(GiveBackAfter(2 * kIdle, *pool), Indices());
}

TEST_F(IdleRegionsTest, KeepTheFirstOneWhateverTheFloor) {
  const auto pool = Pool(0, 256 * kMega);
  pool->Allocate(2 * kMega)->Reset();
  GiveBack(*pool);
  EXPECT_EQ(GiveBackAfter(kIdle, *pool), Indices{1});
  EXPECT_EQ(GiveBackAfter(kIdle, *pool), Indices());
  EXPECT_EQ(GiveBackAfter(kIdle, *pool), Indices());
  EXPECT_EQ(pool->region(0).number, 1u);
}

TEST_F(IdleRegionsTest, AreNotTakenIfTheyAreUsedMeanwhile) {
  const auto pool = Pool(kMega, 256 * kMega);
  pool->Allocate(2 * kMega)->Reset();
  GiveBack(*pool);
  now_ += kIdle;
  EXPECT_TRUE(pool->FindIdle(now_));
  EXPECT_LE(pool->NextLook(), now_);
  const Buffer buffer = *pool->Allocate(2 * kMega);
  EXPECT_FALSE(pool->TakeIdle().has_value());
  EXPECT_FALSE(pool->FindIdle(now_));
  EXPECT_EQ(buffer.region(), 1u);
}

TEST_F(IdleRegionsTest, LeaveAnIndexToANewNumber) {
  const auto pool = Pool(kMega, 256 * kMega);
  const Buffer first = *pool->Allocate(kMega);
  pool->Allocate(2 * kMega)->Reset();
  const Buffer last = *pool->Allocate(4 * kMega);
  EXPECT_EQ(last.region(), 2u);
  GiveBack(*pool);
  EXPECT_EQ(GiveBackAfter(kIdle, *pool), Indices{1});
  EXPECT_EQ(pool->region(1).number, 0u);
  EXPECT_EQ(pool->region(1).bytes, 0u);
  EXPECT_EQ(pool->region(16).number, 0u);
  EXPECT_EQ(pool->region_count(), 2u);
  const Buffer again = *pool->Allocate(2 * kMega);
  EXPECT_EQ(again.region(), 1u);
  EXPECT_EQ(pool->region(1).number, 4u);
  EXPECT_EQ(pool->region(2).number, 3u);
  EXPECT_EQ(pool->regions_added(), 4u);
}

TEST_F(IdleRegionsTest, NeverGoWithoutBeingAskedFor) {
  const auto pool = BufferPool::Create(
      device_.pd(),
      {.first_region_bytes = kMega, .max_bytes = 8 * kMega, .max_regions = 8});
  ASSERT_TRUE(pool.ok());
  (*pool)->Allocate(2 * kMega)->Reset();
  EXPECT_EQ((*pool)->NextLook(), absl::InfiniteFuture());
  EXPECT_EQ(GiveBackAfter(absl::Hours(1), **pool), Indices());
}

TEST_F(IdleRegionsTest, LeaveRoomForTheLargestBuffer) {
  const uint32_t seed = base::TestSeed();
  for (const uint64_t max : {80u, 128u, 512u}) {
    for (const uint32_t regions : {2u, 3u, 16u}) {
      const auto pool = Pool(kMega, max * kMega, 63 * kMega, regions);
      std::mt19937 random(seed);
      std::vector<Buffer> held;
      for (int i = 0; i < 200; ++i) {
        auto buffer = pool->Allocate(kMega / 4 << random() % 9);
        if (buffer.ok()) held.push_back(*std::move(buffer));
        while (!held.empty() && random() % 2 == 0) {
          std::swap(held[random() % held.size()], held.back());
          held.pop_back();
        }
        GiveBackAfter(kIdle / 2, *pool);
      }
      held.clear();
      EXPECT_TRUE(pool->Allocate(63 * kMega).ok())
          << "of " << max << " MiB in " << regions;
    }
  }
}

TEST_F(IdleRegionsTest, NeverGoWithABufferWhileOthersAllocate) {
  const auto pool = Pool(kMega, 64 * kMega);
  std::atomic<bool> stop{false};
  const auto work = [&pool](uint32_t number) {
    std::mt19937 random(number);
    for (int i = 0; i < 300; ++i) {
      absl::StatusOr<Buffer> buffer = pool->Allocate(kMega << random() % 4);
      if (!buffer.ok()) continue;
      // A page that is not mapped would end this here.
      std::fill_n(buffer->data(), 1000, uint8_t(number));
      EXPECT_EQ(
          std::count(buffer->data(), buffer->data() + 1000, uint8_t(number)),
          1000);
    }
  };
  std::thread owner([this, &pool, &stop] {
    while (!stop.load()) GiveBackAfter(kIdle, *pool);
  });
  const uint32_t seed = base::TestSeed();
  std::thread other(work, seed + 1);
  work(seed);
  other.join();
  stop.store(true);
  owner.join();
  GiveBackAfter(kIdle, *pool);
  GiveBackAfter(kIdle, *pool);
  EXPECT_EQ(pool->registered_bytes(), kMega);
}

}  // namespace
}  // namespace verbena::transport
