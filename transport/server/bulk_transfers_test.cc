#include "transport/server/bulk_transfers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "transport/base/limits.h"
#include "transport/device/send_batch.h"
#include "transport/device/send_buffers.h"
#include "transport/polling/poller.h"
#include "transport/session/send_queue.h"
#include "transport/verbs/fake_verbs.h"
#include "transport/verbs/protection_domain.h"

namespace verbena::transport {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class BulkTransfersTest : public testing::Test {
 protected:
  BulkTransfersTest() { queue_.Attach(verbs_.qp(), 0); }

  BulkTransfer* Start(uint32_t bytes, uint64_t remote = 0x10000000) {
    BulkTransfer* const transfer = transfers_.Acquire();
    transfer->opcode = IBV_WR_RDMA_WRITE;
    transfer->local = reinterpret_cast<uint8_t*>(0x40000000);
    transfer->lkey = 1;
    transfer->remote = {remote, 2};
    transfer->bytes = bytes;
    transfers_.Start(transfer);
    return transfer;
  }

  // Returns the transfers whose last chunk was posted.
  std::vector<BulkTransfer*> PostChunks() {
    std::vector<BulkTransfer*> posted;
    EXPECT_EQ(transfers_.PostChunks(queue_,
                                    [&posted](BulkTransfer* transfer) {
                                      posted.push_back(transfer);
                                    }),
              0);
    EXPECT_EQ(queue_.Flush(), 0);
    return posted;
  }

  // Completes the oldest chunk; returns its transfer if that was the last.
  BulkTransfer* CompleteOne() {
    BulkTransfer* ended = nullptr;
    queue_.Complete(next_completion_++, [this, &ended](void* tag) {
      BulkTransfer* const transfer = static_cast<BulkTransfer*>(tag);
      if (transfers_.ChunkDone(transfer)) ended = transfer;
    });
    return ended;
  }

  FakeVerbs verbs_;
  ProtectionDomain pd_ =
      *ProtectionDomain::Create(verbs_.table(), verbs_.context());
  SendBuffers buffers_ = *SendBuffers::Create(pd_, 1, 0);
  SendBatches batches_;
  SharedSends shared_{kSendQueueDepth};
  SendQueue queue_{buffers_, batches_, shared_};
  std::unique_ptr<Poller> poller_ = *Poller::Create();
  BulkTransfers transfers_{*poller_};
  uint64_t next_completion_ = 0;
};

TEST_F(BulkTransfersTest, PostsASmallOneAtOnce) {
  BulkTransfer* const transfer = Start(100);
  EXPECT_THAT(PostChunks(), ElementsAre(transfer));
  ASSERT_EQ(verbs_.sends.size(), 1u);
  EXPECT_EQ(verbs_.sends[0].length, 100u);
  EXPECT_EQ(CompleteOne(), transfer);
  transfers_.Release(transfer);
}

TEST_F(BulkTransfersTest, CutsALargeOneIntoChunksThatCoverIt) {
  BulkTransfer* const transfer = Start(2 * kBulkChunkBytes + 1);
  EXPECT_THAT(PostChunks(), IsEmpty());
  EXPECT_EQ(CompleteOne(), nullptr);
  EXPECT_THAT(PostChunks(), ElementsAre(transfer));
  ASSERT_EQ(verbs_.sends.size(), 3u);
  uint64_t offset = 0;
  for (const FakeWorkRequest& chunk : verbs_.sends) {
    EXPECT_EQ(chunk.address, 0x40000000 + offset);
    EXPECT_EQ(chunk.remote_address, 0x10000000 + offset);
    EXPECT_EQ(chunk.lkey, 1u);
    EXPECT_EQ(chunk.rkey, 2u);
    offset += chunk.length;
  }
  EXPECT_EQ(offset, 2 * kBulkChunkBytes + 1);
  EXPECT_EQ(CompleteOne(), nullptr);
  EXPECT_EQ(CompleteOne(), transfer);
  transfers_.Release(transfer);
}

TEST_F(BulkTransfersTest, KeepsNoMoreThanAWindowUnderWay) {
  const uint32_t bytes = 5 * kBulkChunkBytes + 1;
  BulkTransfer* const transfer = Start(bytes);
  uint32_t most = 0;
  do {
    PostChunks();
    most = std::max(most, transfer->posted_bytes - transfer->done_bytes);
  } while (CompleteOne() == nullptr);
  EXPECT_EQ(most, kBulkWindowBytes);
  EXPECT_EQ(transfer->posted_bytes, bytes);
}

TEST_F(BulkTransfersTest, KeepsNoMoreThanItsPlacesUnderWay) {
  for (uint32_t i = 0; i <= kBulkDepth; ++i) Start(1);
  EXPECT_EQ(PostChunks().size(), kBulkDepth);
  CompleteOne();
  EXPECT_EQ(PostChunks().size(), 1u);
}

TEST_F(BulkTransfersTest, PostsAWholeChunkAsOne) {
  BulkTransfer* const transfer = Start(kBulkChunkBytes);
  EXPECT_THAT(PostChunks(), ElementsAre(transfer));
  EXPECT_EQ(verbs_.sends.size(), 1u);
  EXPECT_EQ(CompleteOne(), transfer);
}

TEST_F(BulkTransfersTest, LetsASmallOnePassALargeOne) {
  BulkTransfer* const large = Start(100 * kBulkChunkBytes, 0x100000000);
  EXPECT_THAT(PostChunks(), IsEmpty());
  BulkTransfer* const small = Start(1);
  EXPECT_THAT(PostChunks(), IsEmpty());
  // At most one chunk of the large one goes before it.
  CompleteOne();
  PostChunks();
  CompleteOne();
  PostChunks();
  EXPECT_EQ(small->posted_bytes, 1u);
  EXPECT_LT(large->posted_bytes, large->bytes);
}

TEST_F(BulkTransfersTest, TakesTurns) {
  BulkTransfer* const first = Start(3 * kBulkChunkBytes, 0x100000000);
  Start(3 * kBulkChunkBytes, 0x200000000);
  do {
    PostChunks();
  } while (CompleteOne() != first);
  PostChunks();
  std::vector<uint64_t> turns;
  for (const FakeWorkRequest& chunk : verbs_.sends) {
    turns.push_back(chunk.remote_address >> 32);
  }
  EXPECT_THAT(turns, ElementsAre(1, 2, 1, 2, 1, 2));
}

TEST_F(BulkTransfersTest, IsNotDoneWhileChunksAreUnposted) {
  BulkTransfer* const transfer = Start(kBulkWindowBytes + kBulkChunkBytes);
  EXPECT_THAT(PostChunks(), IsEmpty());
  EXPECT_EQ(CompleteOne(), nullptr);
  EXPECT_EQ(CompleteOne(), nullptr);
  EXPECT_THAT(PostChunks(), ElementsAre(transfer));
  EXPECT_EQ(CompleteOne(), transfer);
}

TEST_F(BulkTransfersTest, RecyclesTransfersWithNothingLeftInThem) {
  BulkTransfer* const first = Start(100);
  PostChunks();
  CompleteOne();
  transfers_.Release(first);
  BulkTransfer* const second = transfers_.Acquire();
  EXPECT_EQ(second, first);
  EXPECT_EQ(second->posted_bytes, 0u);
  EXPECT_EQ(second->bytes, 0u);
  EXPECT_EQ(second->owner, nullptr);
  EXPECT_NE(transfers_.Acquire(), first);
}

TEST_F(BulkTransfersTest, PassesOnThatTheDeviceRefuses) {
  // The device's error shows when a batch is full.
  for (uint32_t i = 0; i < SendBatch::kCapacity; ++i) Start(100);
  verbs_.post_error = EIO;
  EXPECT_EQ(transfers_.PostChunks(queue_, [](BulkTransfer*) {}), EIO);
}

// A READ arrives as a write of the peer's on iWARP.
TEST_F(BulkTransfersTest, RegistersWhatIsReadForAsLongAsItIs) {
  transfers_.RegisterSinks(pd_);
  const std::string made =
      absl::StrCat("reg_mr ", kBulkChunkBytes + 1, " ",
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  BulkTransfer* const transfer = Start(kBulkChunkBytes + 1);
  transfer->opcode = IBV_WR_RDMA_READ;
  const uint32_t lkey = transfer->lkey;
  PostChunks();
  EXPECT_EQ(verbs_.calls.back(), made);
  ASSERT_EQ(verbs_.sends.size(), 2u);
  EXPECT_NE(verbs_.sends[0].lkey, lkey);
  EXPECT_EQ(verbs_.sends[0].lkey, verbs_.sends[1].lkey);
  EXPECT_EQ(CompleteOne(), nullptr);
  EXPECT_NE(transfer->sink.get(), nullptr);
  EXPECT_EQ(CompleteOne(), transfer);
  // Before the bytes are looked at.
  EXPECT_EQ(transfer->sink.get(), nullptr);
  transfers_.Release(transfer);
}

}  // namespace
}  // namespace verbena::transport
