#include "transport/device/send_batch.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <set>

#include "transport/verbs/fake_verbs.h"

namespace verbena::transport {
namespace {

class SendBatchTest : public testing::Test {
 protected:
  void Add(uint64_t wr_id) {
    ibv_send_wr* const wr = batch_.Add();
    wr->wr_id = wr_id;
    wr->opcode = IBV_WR_SEND;
    wr->sg_list->addr = 0x1000 + wr_id;
    wr->sg_list->length = 1;
  }

  FakeVerbs verbs_;
  SendBatch batch_;
};

TEST_F(SendBatchTest, PostsEverythingInOrderWithOneDoorbell) {
  for (uint64_t i = 0; i < 3; ++i) Add(i);
  EXPECT_EQ(batch_.Post(verbs_.qp()), 0);
  ASSERT_EQ(verbs_.sends.size(), 3u);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(verbs_.sends[i].wr_id, i);
    EXPECT_EQ(verbs_.sends[i].address, 0x1000 + i);
    EXPECT_EQ(verbs_.sends[i].doorbell, 0);
  }
}

TEST_F(SendBatchTest, IsEmptyAgainOnceItIsPosted) {
  EXPECT_TRUE(batch_.empty());
  Add(1);
  EXPECT_FALSE(batch_.empty());
  EXPECT_EQ(batch_.Post(verbs_.qp()), 0);
  EXPECT_TRUE(batch_.empty());
  // A longer chain after a shorter one.
  for (uint64_t i = 0; i < SendBatch::kCapacity; ++i) {
    EXPECT_FALSE(batch_.full());
    Add(i);
  }
  EXPECT_TRUE(batch_.full());
  EXPECT_EQ(batch_.Post(verbs_.qp()), 0);
  EXPECT_EQ(verbs_.sends.size(), 1 + SendBatch::kCapacity);
}

TEST_F(SendBatchTest, HasScratchMemoryForEveryFrame) {
  std::set<uint8_t*> frames;
  uint8_t* last = nullptr;
  for (uint64_t i = 0; i < SendBatch::kCapacity; ++i) {
    uint8_t* const frame = batch_.scratch();
    if (last != nullptr) {
      EXPECT_GE(frame, last + kInlineBytesWanted);
    }
    last = frame;
    frames.insert(frame);
    Add(i);
  }
  EXPECT_EQ(frames.size(), SendBatch::kCapacity);
}

TEST_F(SendBatchTest, SaysThatTheDeviceRefuses) {
  verbs_.post_error = EIO;
  Add(1);
  EXPECT_EQ(batch_.Post(verbs_.qp()), EIO);
  EXPECT_TRUE(batch_.empty());
}

TEST_F(SendBatchTest, PostsNothingThatWasDropped) {
  Add(1);
  batch_.Clear();
  Add(2);
  EXPECT_EQ(batch_.Post(verbs_.qp()), 0);
  ASSERT_EQ(verbs_.sends.size(), 1u);
  EXPECT_EQ(verbs_.sends[0].wr_id, 2u);
}

TEST(SendBatchesTest, GiveTheOneUsedLastFirst) {
  SendBatches batches;
  SendBatch* const a = batches.Acquire();
  SendBatch* const b = batches.Acquire();
  EXPECT_NE(a, b);
  batches.Release(a);
  batches.Release(b);
  EXPECT_EQ(batches.Acquire(), b);
  EXPECT_EQ(batches.Acquire(), a);
  batches.Release(a);
  batches.Release(b);
}

}  // namespace
}  // namespace verbena::transport
