#include "transport/memory/buffer_pool.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "transport/base/test_seed.h"
#include "transport/memory/fake_registrar.h"

namespace verbena::transport {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMega = uint64_t{1} << 20;

class BufferPoolTest : public testing::Test {
 protected:
  // A pool that begins with `first` bytes.
  std::unique_ptr<BufferPool> Pool(uint64_t first, uint64_t max_bytes,
                                   uint32_t max_regions) {
    absl::StatusOr<std::unique_ptr<BufferPool>> pool =
        BufferPool::Create(device_.pd(), {.access = IBV_ACCESS_LOCAL_WRITE,
                                          .first_region_bytes = first,
                                          .max_bytes = max_bytes,
                                          .max_regions = max_regions,
                                          .largest_bytes = 0});
    EXPECT_TRUE(pool.ok()) << pool.status();
    return *std::move(pool);
  }

  absl::StatusCode CreateError(uint64_t first, uint64_t max_bytes,
                               uint32_t max_regions) {
    return BufferPool::Create(device_.pd(), {.first_region_bytes = first,
                                             .max_bytes = max_bytes,
                                             .max_regions = max_regions,
                                             .largest_bytes = 0})
        .status()
        .code();
  }

  static absl::StatusCode AllocateError(BufferPool& pool, size_t bytes) {
    return pool.Allocate(bytes).status().code();
  }

  FakeRegistrar device_;
};

TEST_F(BufferPoolTest, LeasesMemoryAndTakesItBack) {
  const auto pool = Pool(kMega, kMega, 1);
  EXPECT_EQ(device_.last_access(), IBV_ACCESS_LOCAL_WRITE);
  EXPECT_EQ(pool->registered_bytes(), kMega);
  {
    const Buffer buffer = *pool->Allocate(5000);
    EXPECT_FALSE(buffer.empty());
    EXPECT_EQ(buffer.size(), 5000u);
    EXPECT_EQ(buffer.span().size(), 5000u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kPage, 0u);
    EXPECT_EQ(pool->allocated_bytes(), 2 * kPage);
  }
  EXPECT_EQ(pool->allocated_bytes(), 0u);
}

TEST_F(BufferPoolTest, NamesBuffersAsAPeerWould) {
  const auto pool = Pool(2 * kPage, kMega, 4);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 6; ++i) buffers.push_back(*pool->Allocate(kPage));
  EXPECT_EQ(pool->region_count(), 2u);
  for (const Buffer& buffer : buffers) {
    const BufferPool::Region region = pool->region(buffer.region());
    EXPECT_EQ(reinterpret_cast<uint64_t>(buffer.data()),
              region.address + buffer.offset());
    EXPECT_LE(buffer.offset() + buffer.size(), region.bytes);
    EXPECT_EQ(buffer.rkey(), region.rkey);
    EXPECT_EQ(buffer.lkey() + 0x10000, region.rkey);
  }
  EXPECT_NE(pool->region(0).rkey, pool->region(1).rkey);
}

TEST_F(BufferPoolTest, GrowsByDoubling) {
  const auto pool = Pool(4 * kMega, 256 * kMega, 100);
  std::vector<Buffer> buffers;
  for (const uint64_t bytes : {4, 8, 16, 16, 64, 16}) {
    buffers.push_back(*pool->Allocate(bytes * kMega));
  }
  ASSERT_EQ(pool->region_count(), 6u);
  const uint64_t sizes[] = {4, 8, 16, 16, 64, 16};
  for (uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(pool->region(i).bytes, sizes[i] * kMega) << i;
  }
}

TEST_F(BufferPoolTest, GrowsAheadOfSmallNeeds) {
  const auto pool = Pool(kMega, 64 * kMega, 8);
  const Buffer all = *pool->Allocate(kMega);
  const Buffer one = *pool->Allocate(1);
  EXPECT_EQ(pool->region(1).bytes, 2 * kMega);
  EXPECT_EQ(one.region(), 1u);
}

TEST_F(BufferPoolTest, GoesOnDoublingWhenFewRegionsMustDo) {
  const auto pool = Pool(kMega, 512 * kMega, 16);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 512; ++i) {
    absl::StatusOr<Buffer> buffer = pool->Allocate(kMega);
    ASSERT_TRUE(buffer.ok()) << i << ": " << buffer.status();
    buffers.push_back(*std::move(buffer));
  }
  EXPECT_EQ(pool->registered_bytes(), 512 * kMega);
  EXPECT_EQ(AllocateError(*pool, 1), absl::StatusCode::kUnavailable);
}

TEST_F(BufferPoolTest, KeepsRoomForTheLargestBuffer) {
  for (const uint64_t max : {64u, 65u, 80u, 100u, 127u, 128u, 512u}) {
    for (const uint32_t regions : {1u, 2u, 3u, 16u, 1000u}) {
      auto pool =
          BufferPool::Create(device_.pd(), {.access = 0,
                                            .first_region_bytes = kMega,
                                            .max_bytes = max * kMega,
                                            .max_regions = regions,
                                            .largest_bytes = 63 * kMega});
      ASSERT_TRUE(pool.ok()) << pool.status();
      std::vector<Buffer> buffers;
      absl::StatusOr<Buffer> buffer = (*pool)->Allocate(kMega);
      for (; buffer.ok(); buffer = (*pool)->Allocate(kMega)) {
        buffers.push_back(*std::move(buffer));
      }
      EXPECT_EQ(buffer.status().code(), absl::StatusCode::kUnavailable);
      // A promised length is never refused for good, whatever is allocated.
      EXPECT_EQ(AllocateError(**pool, 63 * kMega),
                absl::StatusCode::kUnavailable)
          << "of " << max << " MiB in " << regions;
      buffers.clear();
      EXPECT_TRUE((*pool)->Allocate(63 * kMega).ok());
    }
  }
}

TEST_F(BufferPoolTest, RefusesToPromiseMoreThanItMayRegister) {
  EXPECT_EQ(BufferPool::Create(device_.pd(), {.access = 0,
                                              .first_region_bytes = kMega,
                                              .max_bytes = 64 * kMega,
                                              .max_regions = 16,
                                              .largest_bytes = 64 * kMega + 1})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(BufferPoolTest, UsesOldRegionsBeforeItGrows) {
  const auto pool = Pool(kMega, 64 * kMega, 8);
  { const Buffer large = *pool->Allocate(8 * kMega); }
  const Buffer first = *pool->Allocate(kMega);
  const Buffer second = *pool->Allocate(kMega);
  EXPECT_EQ(first.region(), 0u);
  EXPECT_EQ(second.region(), 1u);
  EXPECT_EQ(pool->region_count(), 2u);
}

TEST_F(BufferPoolTest, TakesTheLastBytesThatItMayRegister) {
  const auto pool = Pool(kMega, 2 * kMega + kMega / 2, 8);
  std::vector<Buffer> buffers;
  buffers.push_back(*pool->Allocate(kMega));
  buffers.push_back(*pool->Allocate(kMega));  // Not 2 MiB: 1.5 are left.
  buffers.push_back(*pool->Allocate(kMega / 2));
  EXPECT_EQ(pool->registered_bytes(), 2 * kMega + kMega / 2);
  EXPECT_EQ(AllocateError(*pool, 1), absl::StatusCode::kUnavailable);
}

TEST_F(BufferPoolTest, IsUnavailableWhileOthersHaveTheRoom) {
  const auto pool = Pool(kMega, kMega, 8);
  Buffer all = *pool->Allocate(kMega);
  const absl::Status status = pool->Allocate(kPage).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("1048576 of 1048576"),
            absl::string_view::npos)
      << status;
  all.Reset();
  EXPECT_TRUE(pool->Allocate(kPage).ok());
}

TEST_F(BufferPoolTest, KeepsAnEighthFromWhoCanGoWithout) {
  const auto pool = Pool(kMega, kMega, 1);
  EXPECT_EQ(pool->AllocateSpare(kMega).status().code(),
            absl::StatusCode::kUnavailable);
  std::vector<Buffer> spare;
  for (absl::StatusOr<Buffer> buffer = pool->AllocateSpare(kMega / 8);
       buffer.ok(); buffer = pool->AllocateSpare(kMega / 8)) {
    spare.push_back(*std::move(buffer));
  }
  EXPECT_EQ(spare.size(), 7u);
  EXPECT_TRUE(pool->Allocate(kMega / 8).ok());
  // And else plain memory does.
  const Buffer plain = pool->source().AllocateSpare(kMega / 8);
  EXPECT_EQ(plain.size(), kMega / 8);
  EXPECT_FALSE(pool->Owns(plain));
  spare.pop_back();
  EXPECT_TRUE(pool->Owns(pool->source().AllocateSpare(kMega / 8)));
}

TEST_F(BufferPoolTest, IsExhaustedByWhatWillNeverFit) {
  const auto by_bytes = Pool(kMega, 2 * kMega, 8);
  EXPECT_EQ(AllocateError(*by_bytes, kMega + 1),
            absl::StatusCode::kResourceExhausted);
  const auto by_regions = Pool(kMega, 64 * kMega, 1);
  EXPECT_EQ(AllocateError(*by_regions, kMega + 1),
            absl::StatusCode::kResourceExhausted);
  const auto by_offset = Pool(kMega, uint64_t{1} << 40, 8);
  EXPECT_EQ(AllocateError(*by_offset, (uint64_t{1} << 32) + 1),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(AllocateError(*by_offset, SIZE_MAX),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(BufferPoolTest, PassesOnFailedRegistrationsAndGoesOn) {
  const auto pool = Pool(kMega, 64 * kMega, 8);
  device_.set_bytes_max(kMega);
  const absl::Status status = pool->Allocate(2 * kMega).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("reg_mr"), absl::string_view::npos) << status;
  EXPECT_EQ(pool->region_count(), 1u);
  EXPECT_EQ(pool->registered_bytes(), kMega);
  EXPECT_TRUE(pool->Allocate(kMega).ok());
  device_.set_bytes_max(SIZE_MAX);
  EXPECT_TRUE(pool->Allocate(2 * kMega).ok());
}

TEST_F(BufferPoolTest, IsNotMadeWithoutItsFirstRegion) {
  device_.set_bytes_max(kPage);
  EXPECT_EQ(CreateError(kMega, kMega, 1), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(device_.live(), 0);
}

TEST_F(BufferPoolTest, RefusesOptionsThatCannotWork) {
  const auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(CreateError(0, kMega, 1), kInvalid);
  EXPECT_EQ(CreateError(kPage / 2, kMega, 1), kInvalid);
  EXPECT_EQ(CreateError(3 * kPage, kMega, 1), kInvalid);
  EXPECT_EQ(CreateError(uint64_t{1} << 33, uint64_t{1} << 40, 1), kInvalid);
  EXPECT_EQ(CreateError(kMega, kMega - 1, 1), kInvalid);
  EXPECT_EQ(CreateError(kMega, kMega, 0), kInvalid);
  EXPECT_EQ(CreateError(kMega, kMega, 65537), kInvalid);
}

TEST_F(BufferPoolTest, GivesEachLeaseBackOnce) {
  const auto pool = Pool(kMega, kMega, 1);
  Buffer one = *pool->Allocate(kPage);
  uint8_t* const data = one.data();
  Buffer two(std::move(one));
  EXPECT_TRUE(one.empty());  // NOLINT: what a moved-from one is.
  EXPECT_EQ(two.data(), data);
  Buffer& same = two;
  two = std::move(same);
  EXPECT_EQ(two.data(), data);
  EXPECT_EQ(pool->allocated_bytes(), kPage);

  Buffer three = *pool->Allocate(2 * kPage);
  three = std::move(two);  // Gives back what it had.
  EXPECT_EQ(three.data(), data);
  EXPECT_EQ(pool->allocated_bytes(), kPage);
  three.Reset();
  three.Reset();
  EXPECT_TRUE(three.empty());
  EXPECT_EQ(pool->allocated_bytes(), 0u);
}

TEST_F(BufferPoolTest, NeverLeasesTheSameBytesTwice) {
  const auto pool = Pool(16 * kPage, kMega, 4);
  const uint32_t seed = base::TestSeed();
  const auto work = [&pool](uint32_t number) {
    std::mt19937 random(number);
    std::vector<Buffer> held;
    for (int i = 0; i < 1000; ++i) {
      absl::StatusOr<Buffer> buffer = pool->Allocate(random() % 20000 + 1);
      const bool full = !buffer.ok();
      if (!full) {
        std::fill_n(buffer->data(), buffer->size(), uint8_t(number));
        held.push_back(*std::move(buffer));
      }
      if (held.empty() || (!full && random() % 2 == 0)) continue;
      std::swap(held[random() % held.size()], held.back());
      const auto span = held.back().span();
      EXPECT_EQ(size_t(std::count(span.begin(), span.end(), uint8_t(number))),
                span.size());
      held.pop_back();
    }
  };
  std::thread other(work, seed + 1);
  work(seed);
  other.join();
  EXPECT_EQ(pool->allocated_bytes(), 0u);
}

TEST_F(BufferPoolTest, TakesBuffersBackOnAnyThread) {
  const auto pool = Pool(kMega, kMega, 1);
  Buffer buffer = *pool->Allocate(kPage);
  std::thread([buffer = std::move(buffer)] {}).join();
  EXPECT_EQ(pool->allocated_bytes(), 0u);
}

TEST_F(BufferPoolTest, MayBeOutlivedByItsBuffers) {
  auto pool = Pool(kMega, 8 * kMega, 8);
  Buffer first = *pool->Allocate(5000);
  Buffer second = *pool->Allocate(2 * kMega);
  const Buffer shared = first.Share();
  std::fill_n(first.data(), 5000, uint8_t{1});
  std::fill_n(second.data(), 2 * kMega, uint8_t{2});
  EXPECT_TRUE(pool->Owns(first));
  pool.reset();
  EXPECT_EQ(device_.live(), 0);  // The protection domain may go.
  EXPECT_EQ(std::count(first.data(), first.data() + 5000, 1), 5000);
  first.Reset();
  EXPECT_EQ(shared.span()[4999], 1);
  EXPECT_EQ(second.span()[2 * kMega - 1], 2);
  EXPECT_FALSE(Pool(kMega, kMega, 1)->Owns(second));
}

TEST_F(BufferPoolTest, MayBeOutlivedByItsSources) {
  auto pool = Pool(kMega, kMega, 1);
  const BufferSource source = pool->source();
  const Buffer registered = source.Allocate(100);
  EXPECT_TRUE(pool->Owns(registered));
  pool.reset();
  Buffer plain = source.Allocate(3 * kMega);
  EXPECT_EQ(plain.size(), 3 * kMega);
  EXPECT_EQ(BufferSource().Allocate(10).size(), 10u);
  EXPECT_TRUE(source.Allocate(0).empty());
}

TEST_F(BufferPoolTest, HasPlainMemoryForItsSourcesWhenItIsFull) {
  const auto pool = Pool(kMega, kMega, 1);
  const Buffer all = *pool->Allocate(kMega);
  const Buffer plain = pool->source().Allocate(100);
  EXPECT_EQ(plain.size(), 100u);
  EXPECT_FALSE(pool->Owns(plain));
}

TEST_F(BufferPoolTest, GivesOutAgainWhatCameBack) {
  const auto pool = Pool(kMega, kMega, 1);
  uint8_t* const data = pool->Allocate(5000)->data();
  EXPECT_EQ(pool->Allocate(8000)->data(), data);
  EXPECT_EQ(pool->allocated_bytes(), 0u);
}

TEST_F(BufferPoolTest, JoinsWhatCameBackBeforeItGrowsOrGivesUp) {
  const auto pool = Pool(kMega, 4 * kMega, 8);
  std::vector<Buffer> pieces;
  for (int i = 0; i < 64; ++i) pieces.push_back(*pool->Allocate(kMega / 64));
  pieces.clear();
  const Buffer whole = *pool->Allocate(kMega);
  EXPECT_EQ(whole.region(), 0u);
  EXPECT_EQ(pool->region_count(), 1u);
}

TEST_F(BufferPoolTest, GoesAwayWhileOthersAllocate) {
  auto pool = Pool(16 * kPage, kMega, 4);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([source = pool->source()] {
      for (int j = 0; j < 2000; ++j) {
        const Buffer buffer = source.Allocate(kPage * (j % 3 + 1));
        std::fill_n(buffer.data(), buffer.size(), uint8_t(j));
      }
    });
  }
  pool.reset();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device_.live(), 0);
}

}  // namespace
}  // namespace verbena::transport
