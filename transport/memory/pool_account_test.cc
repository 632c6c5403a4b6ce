#include "transport/memory/pool_account.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "transport/memory/buffer_pool.h"
#include "transport/memory/fake_registrar.h"

namespace verbena::transport {
namespace {

constexpr uint64_t kMega = uint64_t{1} << 20;
constexpr uint64_t kAll = 64 * kMega;

class PoolAccountTest : public testing::Test {
 protected:
  PoolAccountTest()
      : pool_(*BufferPool::Create(device_.pd(), {.first_region_bytes = kAll,
                                                 .max_bytes = kAll,
                                                 .max_regions = 1})) {}

  // Empty if the account may not have it.
  Buffer Take(PoolAccount& account, uint64_t bytes) {
    if (!account.Reserve(OccupiedBytes(bytes))) return Buffer();
    absl::StatusOr<Buffer> buffer = pool_->AllocateReserved(bytes, account);
    return buffer.ok() ? *std::move(buffer) : Buffer();
  }
  // Takes pieces of `bytes` until the account is refused; returns them.
  std::vector<Buffer> TakeAll(PoolAccount& account, uint64_t bytes = kMega) {
    std::vector<Buffer> buffers;
    while (true) {
      Buffer buffer = Take(account, bytes);
      if (buffer.empty()) return buffers;
      buffers.push_back(std::move(buffer));
    }
  }

  FakeRegistrar device_;
  std::unique_ptr<BufferPool> pool_;
};

TEST_F(PoolAccountTest, CountsWhatIsOut) {
  const PoolAccount::Owner account = pool_->OpenAccount();
  EXPECT_EQ(account->bytes(), 0u);
  {
    const Buffer first = Take(*account, 5000);
    const Buffer second = Take(*account, kMega);
    const Buffer shared = first.Share();
    EXPECT_EQ(account->bytes(), 8192 + kMega);
  }
  EXPECT_EQ(account->bytes(), 0u);
}

TEST_F(PoolAccountTest, LeavesAnEighthToOthers) {
  const PoolAccount::Owner greedy = pool_->OpenAccount();
  const std::vector<Buffer> buffers = TakeAll(*greedy);
  EXPECT_EQ(buffers.size(), kAll / kMega * 7 / 8);
  const PoolAccount::Owner other = pool_->OpenAccount();
  EXPECT_FALSE(Take(*other, kAll / 8).empty());
}

TEST_F(PoolAccountTest, LeavesSomethingHoweverManyTakeWhatTheyCanGet) {
  std::vector<PoolAccount::Owner> accounts;
  std::vector<std::vector<Buffer>> buffers;
  for (int i = 0; i < 5; ++i) {
    accounts.push_back(pool_->OpenAccount());
    buffers.push_back(TakeAll(*accounts.back(), kMega / 16));
    EXPECT_GE(buffers.back().size(), 1u) << i;
  }
}

TEST_F(PoolAccountTest, GivesAllToWhoHasNothing) {
  const PoolAccount::Owner account = pool_->OpenAccount();
  EXPECT_FALSE(Take(*account, kAll).empty());
  // A new account may reserve more than is left, but the pool refuses it.
  const Buffer half = Take(*account, kAll / 2);
  const PoolAccount::Owner other = pool_->OpenAccount();
  EXPECT_TRUE(Take(*other, kAll).empty());
  EXPECT_EQ(other->bytes(), 0u);
}

TEST_F(PoolAccountTest, IsRestoredByARefusal) {
  const PoolAccount::Owner account = pool_->OpenAccount();
  std::vector<Buffer> buffers = TakeAll(*account);
  const uint64_t held = account->bytes();
  EXPECT_FALSE(account->Reserve(kMega));
  EXPECT_EQ(account->bytes(), held);
  buffers.pop_back();
  EXPECT_FALSE(Take(*account, kMega).empty());
}

TEST_F(PoolAccountTest, OutlivesItsOwnerForItsBuffers) {
  PoolAccount::Owner account = pool_->OpenAccount();
  Buffer buffer = Take(*account, kMega);
  account.reset();
  pool_.reset();
  buffer.Reset();
}

TEST_F(PoolAccountTest, CountsRightWithManyThreads) {
  const PoolAccount::Owner account = pool_->OpenAccount();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 2000; ++j) {
        const Buffer first = Take(*account, 10 * kMega);
        const Buffer second = Take(*account, 4096);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(account->bytes(), 0u);
  EXPECT_TRUE(account->Reserve(kAll / 8 * 7));
  account->Unreserve(kAll / 8 * 7);
}

}  // namespace
}  // namespace verbena::transport
