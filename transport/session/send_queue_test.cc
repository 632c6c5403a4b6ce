#include "transport/session/send_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "transport/base/limits.h"
#include "transport/base/test_seed.h"
#include "transport/device/send_batch.h"
#include "transport/device/send_buffers.h"
#include "transport/verbs/fake_verbs.h"
#include "transport/verbs/protection_domain.h"

namespace verbena::transport {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kInline = 100;
constexpr uint32_t kBuffers = SendBuffers::kSlabBuffers;

class SendQueueTest : public testing::Test {
 protected:
  SendQueueTest() { queue_.Attach(verbs_.qp(), kInline); }

  void AddFrame(uint32_t bytes = 50, bool signalled = false) {
    ASSERT_NE(queue_.BeginFrame(bytes), nullptr);
    ASSERT_EQ(queue_.PostFrame(bytes, signalled), 0);
  }
  void PostFrame(uint32_t bytes = 50, bool signalled = false) {
    AddFrame(bytes, signalled);
    ASSERT_EQ(queue_.Flush(), 0);
  }
  void PostBulk(void* tag, ibv_wr_opcode opcode = IBV_WR_RDMA_READ) {
    BulkChunk chunk;
    chunk.local = reinterpret_cast<uint8_t*>(0x1000);
    chunk.lkey = 11;
    chunk.bytes = 12;
    chunk.remote = 0x2000;
    chunk.rkey = 13;
    ASSERT_EQ(queue_.PostBulk(opcode, chunk, tag), 0);
    ASSERT_EQ(queue_.Flush(), 0);
  }

  // Completes `wr_id`; returns the tags of the bulk transfers that it ended.
  std::vector<void*> Complete(uint64_t wr_id) {
    std::vector<void*> tags;
    queue_.Complete(wr_id, [&tags](void* tag) { tags.push_back(tag); });
    return tags;
  }

  uint64_t LastId() const { return verbs_.sends.back().wr_id; }

  FakeVerbs verbs_;
  ProtectionDomain pd_ =
      *ProtectionDomain::Create(verbs_.table(), verbs_.context());
  SendBuffers buffers_ = *SendBuffers::Create(pd_, kBuffers, 0);
  SendBatches batches_;
  SharedSends shared_{kSendQueueDepth};
  SendQueue queue_{buffers_, batches_, shared_};
  int tag_a_ = 0;
  int tag_b_ = 0;
};

TEST_F(SendQueueTest, SendsWhatWasWrittenToAFrame) {
  uint8_t* const frame = queue_.BeginFrame(200);
  ASSERT_EQ(queue_.PostFrame(200, /*signalled=*/false), 0);
  ASSERT_EQ(queue_.Flush(), 0);
  ASSERT_EQ(verbs_.sends.size(), 1u);
  EXPECT_EQ(verbs_.sends[0].opcode, IBV_WR_SEND);
  EXPECT_EQ(verbs_.sends[0].address, reinterpret_cast<uint64_t>(frame));
  EXPECT_EQ(verbs_.sends[0].length, 200u);
  EXPECT_NE(queue_.BeginFrame(200), frame);
}

TEST_F(SendQueueTest, PostsManyWithOneDoorbell) {
  for (int i = 0; i < 3; ++i) AddFrame();
  AddFrame(200);
  EXPECT_TRUE(verbs_.sends.empty());
  ASSERT_EQ(queue_.Flush(), 0);
  ASSERT_EQ(verbs_.sends.size(), 4u);
  for (const FakeWorkRequest& send : verbs_.sends) {
    EXPECT_EQ(send.doorbell, 0);
  }
  // There is nothing left.
  ASSERT_EQ(queue_.Flush(), 0);
  EXPECT_EQ(verbs_.sends.size(), 4u);
}

TEST_F(SendQueueTest, RingsWhenABatchIsFull) {
  for (uint32_t i = 0; i < SendBatch::kCapacity; ++i) {
    EXPECT_TRUE(verbs_.sends.empty());
    AddFrame();
  }
  EXPECT_EQ(verbs_.sends.size(), SendBatch::kCapacity);
}

TEST_F(SendQueueTest, KeepsInlineFramesOfABatchApart) {
  uint8_t* const first = queue_.BeginFrame(kInline);
  ASSERT_EQ(queue_.PostFrame(kInline, /*signalled=*/false), 0);
  uint8_t* const second = queue_.BeginFrame(kInline);
  EXPECT_GE(second > first ? second - first : first - second, kInline);
  ASSERT_EQ(queue_.PostFrame(kInline, /*signalled=*/false), 0);
  ASSERT_EQ(queue_.Flush(), 0);
}

TEST_F(SendQueueTest, HoldsABufferOnlyUntilItsCompletion) {
  // Its share, and one whose completion brings them back.
  for (uint32_t i = 0; i < kBuffers / 2 + 1; ++i) PostFrame(200);
  EXPECT_EQ(queue_.BeginFrame(200), nullptr);
  // A frame that fits inline needs no buffer.
  EXPECT_NE(queue_.BeginFrame(kInline), nullptr);
  Complete(LastId());
  EXPECT_NE(queue_.BeginFrame(200), nullptr);
}

TEST_F(SendQueueTest, TakesOneBeyondItsShareWhenNoneWouldComeBackElse) {
  SendBuffers buffers = *SendBuffers::Create(pd_, kBuffers, kBuffers);
  SendQueue queue(buffers, batches_, shared_);
  queue.Attach(verbs_.qp(), kInline);
  const auto post = [&] {
    if (queue.BeginFrame(200) == nullptr) return false;
    EXPECT_EQ(queue.PostFrame(200, /*signalled=*/false), 0);
    EXPECT_EQ(queue.Flush(), 0);
    return true;
  };
  EXPECT_TRUE(post());
  EXPECT_FALSE(verbs_.sends.back().signalled());
  // Others come and take all that is shared.
  while (buffers.InShare(0, 1)) buffers.Acquire();
  ASSERT_TRUE(post());
  EXPECT_TRUE(verbs_.sends.back().signalled());
  EXPECT_TRUE(queue.awaits_completion());
  EXPECT_FALSE(post());
  EXPECT_TRUE(queue.Complete(LastId(), [](void*) {}));
  EXPECT_TRUE(post());
}

// A completion wakes a side that sleeps.
TEST_F(SendQueueTest, SignalsAFrameThatHoldsABufferNoMoreOftenThanAnother) {
  for (uint32_t i = 0; i < kBuffers / 2; ++i) {
    PostFrame(200);
    EXPECT_FALSE(verbs_.sends[i].signalled()) << i;
  }
}

// Else frames of connections that have fallen silent could hold all of them.
TEST_F(SendQueueTest, SignalsEachFrameThatHoldsABufferOnceTheyAreScarce) {
  SendQueue silent(buffers_, batches_, shared_);
  silent.Attach(verbs_.qp(), kInline);
  for (uint32_t i = 0; i < kBuffers / 2; ++i) {
    ASSERT_NE(silent.BeginFrame(200), nullptr);
    ASSERT_EQ(silent.PostFrame(200, /*signalled=*/false), 0);
  }
  PostFrame(200);
  EXPECT_TRUE(verbs_.sends.back().signalled());
  PostFrame(kInline);
  EXPECT_FALSE(verbs_.sends.back().signalled());
}

// However many there are, and whatever they did before they fell silent.
TEST_F(SendQueueTest, SilentConnectionsHoldHalfOfAllBuffersAtMost) {
  constexpr int kConnections = 300;
  std::mt19937 random(base::TestSeed());
  SharedSends shared(kMaxSharedSends);
  SendBuffers buffers = *SendBuffers::Create(pd_, kMaxSendBuffers, 0);
  struct Connection {
    std::unique_ptr<SendQueue> queue;
    std::optional<uint64_t> completion;  // The last that is to come.
    void Complete() {
      if (completion.has_value()) queue->Complete(*completion, [](void*) {});
      completion.reset();
    }
  };
  std::vector<Connection> connections(kConnections);
  for (Connection& each : connections) {
    each.queue = std::make_unique<SendQueue>(buffers, batches_, shared);
    each.queue->Attach(verbs_.qp(), kInline);
  }
  for (int i = 0; i < 100 * kConnections; ++i) {
    Connection& each = connections[random() % kConnections];
    const uint32_t bytes = random() % 2 == 0 ? kInline : kInline + 1;
    if (each.queue->HasFrameRoom() &&
        each.queue->BeginFrame(bytes) != nullptr) {
      ASSERT_EQ(each.queue->PostFrame(bytes, /*signalled=*/false), 0);
      ASSERT_EQ(each.queue->Flush(), 0);
      if (verbs_.sends.back().signalled()) each.completion = LastId();
    }
    if (random() % 8 > 0) each.Complete();
  }
  for (Connection& each : connections) each.Complete();
  EXPECT_LE(buffers.held(), kMaxSendBuffers / 2);
  EXPECT_GT(buffers.held(), kMaxSendBuffers / 4) << "they were never scarce";
  connections.clear();
}

// However few there are: no completion of theirs would ever tell.
TEST_F(SendQueueTest, SilentConnectionsDoNotHoldAllThatCanBeRegistered) {
  SendBuffers buffers = *SendBuffers::Create(pd_, kMaxSendBuffers, 0);
  verbs_.make_error = ENOMEM;
  SendQueue first(buffers, batches_, shared_);
  SendQueue second(buffers, batches_, shared_);
  for (uint32_t i = 0; i < kBuffers; ++i) {
    SendQueue& queue = i < kBuffers / 2 ? first : second;
    queue.Attach(verbs_.qp(), kInline);
    ASSERT_NE(queue.BeginFrame(200), nullptr);
    ASSERT_EQ(queue.PostFrame(200, /*signalled=*/false), 0);
    ASSERT_EQ(queue.Flush(), 0);
  }
  EXPECT_FALSE(buffers.available());
  ASSERT_TRUE(verbs_.sends.back().signalled());
  second.Complete(LastId(), [](void*) {});
  EXPECT_NE(first.BeginFrame(200), nullptr);
}

TEST_F(SendQueueTest, KeepsTheBufferOfAFrameThatWasNotPosted) {
  uint8_t* const frame = queue_.BeginFrame(200);
  EXPECT_EQ(queue_.BeginFrame(200), frame);
  PostFrame(kInline);
  EXPECT_EQ(queue_.BeginFrame(200), frame);
}

TEST_F(SendQueueTest, GivesEverythingBackWhenItEnds) {
  {
    SendQueue queue(buffers_, batches_, shared_);
    queue.Attach(verbs_.qp(), kInline);
    for (int i = 0; i < 2; ++i) {
      ASSERT_NE(queue.BeginFrame(200), nullptr);
      ASSERT_EQ(queue.PostFrame(200, /*signalled=*/false), 0);
    }
    ASSERT_NE(queue.BeginFrame(200), nullptr);
  }
  EXPECT_EQ(buffers_.held(), 0u);
}

TEST_F(SendQueueTest, SendsInlineWhatFits) {
  PostFrame(kInline);
  PostFrame(kInline + 1);
  EXPECT_TRUE(verbs_.sends[0].is_inline());
  EXPECT_FALSE(verbs_.sends[1].is_inline());
}

TEST_F(SendQueueTest, SignalsOneFrameInSoMany) {
  for (uint32_t i = 0; i < 3 * kSignalInterval; ++i) PostFrame();
  for (uint32_t i = 0; i < verbs_.sends.size(); ++i) {
    EXPECT_EQ(verbs_.sends[i].signalled(), (i + 1) % kSignalInterval == 0) << i;
  }
}

TEST_F(SendQueueTest, SignalsOnDemandAndCountsFromThere) {
  PostFrame(50, /*signalled=*/true);
  EXPECT_TRUE(verbs_.sends[0].signalled());
  for (uint32_t i = 1; i <= kSignalInterval; ++i) PostFrame();
  EXPECT_FALSE(verbs_.sends[kSignalInterval - 1].signalled());
  EXPECT_TRUE(verbs_.sends[kSignalInterval].signalled());
}

TEST_F(SendQueueTest, BoundsFrames) {
  for (uint32_t i = 0; i < kFrameDepth; ++i) {
    EXPECT_TRUE(queue_.HasFrameRoom()) << i;
    PostFrame();
  }
  EXPECT_FALSE(queue_.HasFrameRoom());
  EXPECT_TRUE(queue_.HasBulkRoom());
}

// When the others have taken all that is shared.
TEST_F(SendQueueTest, GoesOnWithItsOwnPlacesWhenNoneAreShared) {
  for (uint32_t i = 0; i < kSendQueueDepth; ++i) shared_.Take();
  for (int round = 0; round < 3; ++round) {
    uint32_t posted = 0;
    for (; queue_.HasFrameRoom(); ++posted) PostFrame();
    EXPECT_GE(posted, 1u);
    EXPECT_FALSE(queue_.HasBulkRoom());
    // At least one frame is signalled, so there will be room again.
    auto last = verbs_.sends.rbegin();
    while (!last->signalled()) ++last;
    Complete(last->wr_id);
  }
  PostBulk(&tag_a_);
  ASSERT_TRUE(queue_.PostDrainMarker());
  Complete(LastId());
  EXPECT_FALSE(shared_.available());
}

TEST_F(SendQueueTest, GivesBackWhatItTookOfTheSharedPlaces) {
  for (uint32_t i = 0; i < kSendQueueDepth - 3; ++i) shared_.Take();
  for (uint32_t i = 0; i < kOwnSends + 3; ++i) {
    EXPECT_TRUE(queue_.HasFrameRoom());
    PostFrame(50, /*signalled=*/true);
  }
  EXPECT_FALSE(queue_.HasFrameRoom());
  EXPECT_FALSE(shared_.available());
  Complete(LastId());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(shared_.available());
    shared_.Take();
  }
  EXPECT_FALSE(shared_.available());
}

TEST_F(SendQueueTest, NeverFillsWithFramesThatNothingAnnounces) {
  for (uint32_t i = 0; i < kFrameDepth; ++i) PostFrame();
  for (auto it = verbs_.sends.rbegin(); it != verbs_.sends.rend(); ++it) {
    if (!it->signalled()) continue;
    Complete(it->wr_id);
    EXPECT_TRUE(queue_.HasFrameRoom());
    return;
  }
  FAIL() << "nothing was signalled";
}

TEST_F(SendQueueTest, EndsEverythingBeforeACompletion) {
  for (int i = 0; i < 10; ++i) PostFrame();
  PostFrame(50, /*signalled=*/true);
  EXPECT_FALSE(queue_.idle());
  EXPECT_THAT(Complete(LastId()), IsEmpty());
  EXPECT_TRUE(queue_.idle());
}

TEST_F(SendQueueTest, NamesThePlacesOfABulkTransfer) {
  PostBulk(&tag_a_, IBV_WR_RDMA_WRITE);
  ASSERT_EQ(verbs_.sends.size(), 1u);
  const FakeWorkRequest& request = verbs_.sends[0];
  EXPECT_EQ(request.opcode, IBV_WR_RDMA_WRITE);
  EXPECT_EQ(request.address, 0x1000u);
  EXPECT_EQ(request.lkey, 11u);
  EXPECT_EQ(request.length, 12u);
  EXPECT_EQ(request.remote_address, 0x2000u);
  EXPECT_EQ(request.rkey, 13u);
  EXPECT_TRUE(request.signalled());
}

TEST_F(SendQueueTest, TellsWhichBulkTransfersHaveEnded) {
  PostBulk(&tag_a_);
  PostFrame();
  PostBulk(&tag_b_);
  PostFrame(50, /*signalled=*/true);
  EXPECT_THAT(Complete(verbs_.sends[0].wr_id), ElementsAre(&tag_a_));
  EXPECT_THAT(Complete(verbs_.sends[2].wr_id), ElementsAre(&tag_b_));
  EXPECT_THAT(Complete(LastId()), IsEmpty());
  EXPECT_TRUE(queue_.idle());
}

// As on iWARP, where a READ is done when its answer has come.
TEST_F(SendQueueTest, WaitsForABulkTransferThatRequestsBehindItOvertake) {
  PostFrame();
  PostBulk(&tag_a_);
  PostFrame(50, /*signalled=*/true);
  PostFrame(200, /*signalled=*/true);
  EXPECT_THAT(Complete(verbs_.sends[2].wr_id), IsEmpty());
  EXPECT_THAT(Complete(verbs_.sends[3].wr_id), IsEmpty());
  EXPECT_FALSE(queue_.idle());
  EXPECT_THAT(Complete(verbs_.sends[1].wr_id), ElementsAre(&tag_a_));
  EXPECT_TRUE(queue_.idle());
}

TEST_F(SendQueueTest, BulkTransfersMayOvertakeEachOther) {
  PostBulk(&tag_a_);
  PostFrame();
  PostBulk(&tag_b_);
  PostFrame();
  PostBulk(&tag_a_);
  PostFrame(50, /*signalled=*/true);
  EXPECT_THAT(Complete(verbs_.sends[2].wr_id), IsEmpty());
  EXPECT_THAT(Complete(verbs_.sends[5].wr_id), IsEmpty());
  EXPECT_THAT(Complete(verbs_.sends[0].wr_id), ElementsAre(&tag_a_, &tag_b_));
  EXPECT_FALSE(queue_.idle());
  EXPECT_THAT(Complete(verbs_.sends[4].wr_id), ElementsAre(&tag_a_));
  EXPECT_TRUE(queue_.idle());
}

TEST_F(SendQueueTest, BoundsBulkTransfers) {
  for (uint32_t i = 0; i < kBulkDepth; ++i) {
    EXPECT_TRUE(queue_.HasBulkRoom());
    PostBulk(&tag_a_);
  }
  EXPECT_FALSE(queue_.HasBulkRoom());
  EXPECT_TRUE(queue_.HasFrameRoom());
  Complete(verbs_.sends[0].wr_id);
  EXPECT_TRUE(queue_.HasBulkRoom());
}

TEST_F(SendQueueTest, MayPostFromInsideACompletion) {
  for (uint32_t i = 0; i < kBulkDepth; ++i) PostBulk(&tag_a_);
  const uint64_t last = LastId();
  for (uint64_t id = 1; id <= last; ++id) Complete(id);
  uint32_t ended = 0;
  queue_.Complete(0, [this, &ended](void* /*tag*/) {
    ++ended;
    if (ended == 1) PostBulk(&tag_b_);
  });
  EXPECT_EQ(ended, kBulkDepth);
  EXPECT_THAT(Complete(LastId()), ElementsAre(&tag_b_));
}

TEST_F(SendQueueTest, FillsWithoutOverrunningTheQueuePair) {
  for (uint32_t i = 0; i < kFrameDepth; ++i) PostFrame();
  for (uint32_t i = 0; i < kBulkDepth; ++i) PostBulk(&tag_a_);
  ASSERT_TRUE(queue_.PostDrainMarker());
  EXPECT_EQ(verbs_.sends.size(), kSendQueueDepth);
  EXPECT_EQ(Complete(LastId()).size(), kBulkDepth);
  EXPECT_TRUE(queue_.idle());
}

TEST_F(SendQueueTest, EndsWithADrainMarker) {
  PostFrame();
  PostBulk(&tag_a_);
  PostFrame();
  ASSERT_TRUE(queue_.PostDrainMarker());
  EXPECT_TRUE(verbs_.sends.back().signalled());
  EXPECT_EQ(verbs_.sends.back().length, 0u);
  EXPECT_THAT(Complete(LastId()), ElementsAre(&tag_a_));
  EXPECT_TRUE(queue_.idle());
}

TEST_F(SendQueueTest, GoesOnForMoreWorkRequestsThanItRemembers) {
  for (int i = 0; i < 1000; ++i) {
    PostFrame(50, /*signalled=*/true);
    PostBulk(&tag_a_);
    EXPECT_THAT(Complete(LastId()), ElementsAre(&tag_a_));
  }
  EXPECT_TRUE(queue_.idle());
}

TEST_F(SendQueueTest, SaysThatTheDeviceRefuses) {
  verbs_.post_error = EIO;
  AddFrame();
  EXPECT_EQ(queue_.Flush(), EIO);
  // The marker ends what was refused, too.
  verbs_.post_error = 0;
  ASSERT_TRUE(queue_.PostDrainMarker());
  Complete(LastId());
  EXPECT_TRUE(queue_.idle());
}

TEST_F(SendQueueTest, IsNeverIdleWhenEvenTheMarkerIsRefused) {
  verbs_.post_error = EINVAL;
  EXPECT_FALSE(queue_.PostDrainMarker());
  EXPECT_FALSE(queue_.idle());
}

TEST_F(SendQueueTest, SaysThatACompletionIsOfNothing) {
  const auto done = [](void*) { FAIL(); };
  EXPECT_FALSE(queue_.Complete(0, done));
  PostFrame(50, /*signalled=*/true);
  EXPECT_TRUE(queue_.Complete(0, done));
  EXPECT_FALSE(queue_.Complete(0, done));
  EXPECT_FALSE(queue_.Complete(1, done));
  EXPECT_TRUE(queue_.idle());
}

}  // namespace
}  // namespace verbena::transport
