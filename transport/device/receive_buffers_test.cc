#include "transport/device/receive_buffers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "transport/base/limits.h"
#include "transport/verbs/fake_verbs.h"
#include "transport/verbs/protection_domain.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kMost = 200;

uint32_t IndexOf(const FakeWorkRequest& receive) {
  EXPECT_NE(receive.wr_id & ReceiveBuffers::kReceiveTag, 0u);
  return static_cast<uint32_t>(receive.wr_id);
}

class ReceiveBuffersTest : public testing::Test {
 protected:
  size_t posted() const { return verbs_.receives.size(); }
  void Reserve(uint32_t count) { ASSERT_TRUE(buffers_.Reserve(count).ok()); }

  // Gives back the oldest `count` buffers that were not given back yet.
  void RepostOldest(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      ASSERT_LT(read_, posted()) << "the queue ran dry";
      ASSERT_TRUE(buffers_.Repost(IndexOf(verbs_.receives[read_++])));
    }
  }

  FakeVerbs verbs_;
  ProtectionDomain pd_ =
      *ProtectionDomain::Create(verbs_.table(), verbs_.context());
  BufferSlabs slabs_{pd_};
  ReceiveBuffers buffers_ = *ReceiveBuffers::Create(pd_, slabs_, kMost);
  size_t read_ = 0;  // In verbs_.receives.
};

TEST_F(ReceiveBuffersTest, CostNothingBeforeTheFirstIsReserved) {
  EXPECT_EQ(posted(), 0u);
  EXPECT_EQ(slabs_.registered_bytes(), 0u);
  EXPECT_NE(buffers_.srq(), nullptr);
}

TEST_F(ReceiveBuffersTest, PostWhatIsReservedAndAFewMore) {
  for (uint32_t reserved = 2; reserved <= kMost; reserved += 2) {
    Reserve(2);
    EXPECT_EQ(posted(), ReceiveBuffers::QueueDepth(reserved));
    EXPECT_GT(posted(), reserved);
  }
  EXPECT_EQ(buffers_.room(), 0u);
}

TEST_F(ReceiveBuffersTest, PostEightAtLeastWithADoorbell) {
  for (uint32_t reserved = 2; reserved <= kMost; reserved += 2) {
    Reserve(2);
    const size_t before = posted();
    RepostOldest(ReceiveBuffers::kLeastBatch - 1);
    ASSERT_EQ(posted(), before) << reserved;
    while (posted() == before) RepostOldest(1);
    ASSERT_GE(posted() - before, ReceiveBuffers::kLeastBatch) << reserved;
  }
}

TEST_F(ReceiveBuffersTest, RegisterNoMoreThanASlabBeyondWhatIsPosted) {
  Reserve(2);
  EXPECT_LE(slabs_.registered_bytes(),
            (posted() + ReceiveBuffers::kSlabBuffers) * kBufferBytes);
  Reserve(100);
  EXPECT_LE(slabs_.registered_bytes(),
            (posted() + ReceiveBuffers::kSlabBuffers) * kBufferBytes);
}

TEST_F(ReceiveBuffersTest, GiveEveryReceiveMemoryOfItsOwn) {
  Reserve(kMost);
  std::set<uint64_t> addresses;
  std::set<uint32_t> indices;
  for (const FakeWorkRequest& receive : verbs_.receives) {
    const uint32_t index = IndexOf(receive);
    EXPECT_EQ(receive.address, reinterpret_cast<uint64_t>(buffers_.At(index)));
    EXPECT_EQ(receive.length, kBufferBytes);
    indices.insert(index);
    addresses.insert(receive.address);
  }
  EXPECT_EQ(indices.size(), posted());
  uint64_t last = 0;
  for (const uint64_t address : addresses) {
    EXPECT_GE(address - last, kBufferBytes);
    last = address;
  }
}

// However many are reserved: as many messages as may be under way find a
// receive, when none of those that are being read, and none that wait for their
// doorbell, is posted.
TEST_F(ReceiveBuffersTest, NeverRunDry) {
  for (uint32_t reserved = 1; reserved <= kMost; ++reserved) {
    Reserve(1);
    const uint32_t polled = std::min(reserved, ReceiveBuffers::kPollBatch);
    for (int round = 0; round < 20; ++round) {
      // Messages arrive on every credit.
      ASSERT_GE(posted() - read_, reserved) << reserved;
      RepostOldest(polled);
    }
  }
}

TEST_F(ReceiveBuffersTest, PostAgainInBatches) {
  Reserve(kMost);
  const size_t before = posted();
  RepostOldest(ReceiveBuffers::kBatch - 1);
  EXPECT_EQ(posted(), before);
  RepostOldest(1);
  ASSERT_EQ(posted(), before + ReceiveBuffers::kBatch);
  for (uint32_t i = 0; i < ReceiveBuffers::kBatch; ++i) {
    EXPECT_EQ(verbs_.receives[before + i].doorbell,
              verbs_.receives[before].doorbell);
  }
}

TEST_F(ReceiveBuffersTest, PostNoMoreThanIsReservedOnceTheOthersCameBack) {
  Reserve(100);
  ASSERT_TRUE(buffers_.Unreserve(98).ok());
  const size_t before = posted();
  RepostOldest(static_cast<uint32_t>(before));
  EXPECT_LE(posted() - before, ReceiveBuffers::QueueDepth(2));
  EXPECT_EQ(buffers_.reserved(), 2u);
}

TEST_F(ReceiveBuffersTest, UseAgainWhatWasLeft) {
  Reserve(100);
  const size_t bytes = slabs_.registered_bytes();
  const size_t before = posted();
  ASSERT_TRUE(buffers_.Unreserve(50).ok());
  Reserve(50);
  EXPECT_EQ(posted(), before);
  ASSERT_TRUE(buffers_.Unreserve(50).ok());
  RepostOldest(static_cast<uint32_t>(before));
  Reserve(50);
  EXPECT_EQ(posted() - read_, ReceiveBuffers::QueueDepth(100));
  EXPECT_EQ(slabs_.registered_bytes(), bytes);
}

TEST_F(ReceiveBuffersTest, StayValidWhenTheyMove) {
  Reserve(10);
  const uint8_t* const buffer = buffers_.At(3);
  ReceiveBuffers moved = std::move(buffers_);
  EXPECT_EQ(moved.At(3), buffer);
  EXPECT_TRUE(moved.Repost(3));
}

TEST_F(ReceiveBuffersTest, ReserveNothingWithoutMemory) {
  verbs_.make_error = ENOMEM;
  const absl::Status no_memory = buffers_.Reserve(2);
  EXPECT_EQ(no_memory.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(no_memory.message(), HasSubstr("ulimit -l"));
  EXPECT_EQ(buffers_.reserved(), 0u);
  verbs_.make_error = 0;
  Reserve(2);
  EXPECT_EQ(posted(), ReceiveBuffers::QueueDepth(2));
}

TEST_F(ReceiveBuffersTest, SayThatTheDeviceTakesNoReceives) {
  verbs_.post_error = EIO;
  EXPECT_EQ(buffers_.Reserve(1).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(buffers_.reserved(), 0u);
}

TEST_F(ReceiveBuffersTest, PostWhatWasRefusedWhenTheNextAreReserved) {
  verbs_.post_error = EIO;
  EXPECT_FALSE(buffers_.Reserve(2).ok());
  verbs_.post_error = 0;
  Reserve(2);
  EXPECT_EQ(posted(), ReceiveBuffers::QueueDepth(2));
}

TEST_F(ReceiveBuffersTest, KnowThatTheyAreTooFewWhenTheDeviceRefusesThem) {
  Reserve(100);
  RepostOldest(ReceiveBuffers::kBatch - 1);
  EXPECT_TRUE(buffers_.complete());
  verbs_.post_error = EIO;
  EXPECT_FALSE(buffers_.Repost(IndexOf(verbs_.receives[read_++])));
  EXPECT_FALSE(buffers_.complete());
  verbs_.post_error = 0;
  Reserve(1);
  EXPECT_TRUE(buffers_.complete());
  EXPECT_EQ(posted() - read_, ReceiveBuffers::QueueDepth(101));
}

TEST_F(ReceiveBuffersTest, LeaveOthersTheirsWhenNewOnesAreRefused) {
  Reserve(100);
  RepostOldest(3);  // They wait for their doorbell.
  verbs_.post_error = EIO;
  EXPECT_FALSE(buffers_.Reserve(2).ok());
  EXPECT_FALSE(buffers_.complete());
  verbs_.post_error = 0;
  EXPECT_TRUE(buffers_.Reserve(2).ok());
  EXPECT_TRUE(buffers_.complete());
}

// A queue pair's own receives, from slabs that others take from, too.
class OwnReceiveBuffersTest : public ReceiveBuffersTest {
 protected:
  ReceiveBuffers own_{slabs_, verbs_.qp(), kMost};
};

TEST_F(OwnReceiveBuffersTest, ArePostedToTheQueuePair) {
  ASSERT_TRUE(own_.Reserve(2).ok());
  EXPECT_EQ(own_.srq(), nullptr);
  EXPECT_EQ(posted(), ReceiveBuffers::QueueDepth(2));
  for (const FakeWorkRequest& receive : verbs_.receives) {
    EXPECT_EQ(receive.qp_num, verbs_.qp()->qp_num);
  }
}

TEST_F(OwnReceiveBuffersTest, SayHowManyBuffersMoreAWindowTakes) {
  ASSERT_TRUE(own_.Reserve(2).ok());
  EXPECT_EQ(own_.BuffersFor(10),
            ReceiveBuffers::QueueDepth(12) - ReceiveBuffers::QueueDepth(2));
  ASSERT_TRUE(own_.Reserve(10).ok());
  // They stay posted until messages have used them.
  ASSERT_TRUE(own_.Unreserve(10).ok());
  EXPECT_EQ(own_.BuffersFor(10), 0u);
  EXPECT_EQ(slabs_.taken_count(), ReceiveBuffers::QueueDepth(12));
}

TEST_F(OwnReceiveBuffersTest, AreFreeForOthersWhenTheQueuePairIsGone) {
  Reserve(1);
  const size_t others = slabs_.taken_count();
  ASSERT_TRUE(own_.Reserve(50).ok());
  // Some wait for their doorbell, some were given back.
  for (size_t i = others; i < others + 5; ++i) {
    ASSERT_TRUE(own_.Repost(IndexOf(verbs_.receives[i])));
  }
  ASSERT_TRUE(own_.Unreserve(40).ok());
  for (size_t i = others + 5; i < others + 12; ++i) {
    ASSERT_TRUE(own_.Repost(IndexOf(verbs_.receives[i])));
  }
  own_.Leave();
  EXPECT_EQ(slabs_.taken_count(), others);
}

TEST_F(OwnReceiveBuffersTest, AreFreedOnceWhateverTheDeviceNames) {
  ASSERT_TRUE(own_.Reserve(50).ok());
  own_.Stop();
  const uint32_t index = IndexOf(verbs_.receives[0]);
  const size_t taken = slabs_.taken_count();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(own_.Repost(index));
  EXPECT_EQ(slabs_.taken_count(), taken - 1);
}

TEST_F(OwnReceiveBuffersTest, PostNothingToAQueuePairInTheErrorState) {
  ASSERT_TRUE(own_.Reserve(50).ok());
  own_.Stop();
  const size_t before = posted();
  for (size_t i = 0; i < before; ++i) {
    ASSERT_TRUE(own_.Repost(IndexOf(verbs_.receives[i])));
  }
  EXPECT_EQ(posted(), before);
  EXPECT_EQ(slabs_.taken_count(), 0u);
}

}  // namespace
}  // namespace verbena::transport
