#include "transport/connection/receive_slots.h"

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
  EXPECT_NE(receive.wr_id & ReceiveSlots::kReceiveTag, 0u);
  return static_cast<uint32_t>(receive.wr_id);
}

class ReceiveSlotsTest : public testing::Test {
 protected:
  size_t posted() const { return verbs_.receives.size(); }
  void Reserve(uint32_t count) { ASSERT_TRUE(slots_.Reserve(count).ok()); }

  // Gives back the oldest `count` slots that were not given back yet.
  void RepostOldest(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      ASSERT_LT(read_, posted()) << "the queue ran dry";
      ASSERT_TRUE(slots_.Repost(IndexOf(verbs_.receives[read_++])).ok());
    }
  }

  FakeVerbs verbs_;
  ProtectionDomain pd_ =
      *ProtectionDomain::Create(verbs_.table(), verbs_.context());
  ReceiveSlots slots_ = *ReceiveSlots::Create(pd_, kMost);
  size_t read_ = 0;  // Of verbs_.receives.
};

TEST_F(ReceiveSlotsTest, CostNothingBeforeTheFirstIsReserved) {
  EXPECT_EQ(posted(), 0u);
  EXPECT_EQ(slots_.registered_bytes(), 0u);
  EXPECT_NE(slots_.srq(), nullptr);
}

TEST_F(ReceiveSlotsTest, PostWhatIsReservedAndAFewMore) {
  for (uint32_t reserved = 2; reserved <= kMost; reserved += 2) {
    Reserve(2);
    EXPECT_EQ(posted(), ReceiveSlots::QueueDepth(reserved));
    EXPECT_GT(posted(), reserved);
  }
  EXPECT_EQ(slots_.room(), 0u);
}

TEST_F(ReceiveSlotsTest, PostEightAtLeastWithADoorbell) {
  for (uint32_t reserved = 2; reserved <= kMost; reserved += 2) {
    Reserve(2);
    const size_t before = posted();
    RepostOldest(ReceiveSlots::kLeastBatch - 1);
    ASSERT_EQ(posted(), before) << reserved;
    while (posted() == before) RepostOldest(1);
    ASSERT_GE(posted() - before, ReceiveSlots::kLeastBatch) << reserved;
  }
}

TEST_F(ReceiveSlotsTest, RegisterNoMoreThanASlabBeyondWhatIsPosted) {
  Reserve(2);
  EXPECT_LE(slots_.registered_bytes(),
            (posted() + ReceiveSlots::kSlabSlots) * kSlotBytes);
  Reserve(100);
  EXPECT_LE(slots_.registered_bytes(),
            (posted() + ReceiveSlots::kSlabSlots) * kSlotBytes);
}

TEST_F(ReceiveSlotsTest, GiveEveryReceiveMemoryOfItsOwn) {
  Reserve(kMost);
  std::set<uint64_t> addresses;
  std::set<uint32_t> indices;
  for (const FakeWorkRequest& receive : verbs_.receives) {
    const uint32_t index = IndexOf(receive);
    EXPECT_EQ(receive.address, reinterpret_cast<uint64_t>(slots_.Slot(index)));
    EXPECT_EQ(receive.length, kSlotBytes);
    indices.insert(index);
    addresses.insert(receive.address);
  }
  EXPECT_EQ(indices.size(), posted());
  uint64_t last = 0;
  for (const uint64_t address : addresses) {
    EXPECT_GE(address - last, kSlotBytes);
    last = address;
  }
}

// However many are reserved: as many messages as may be under way find a
// receive, when none of those that are being read, and none that wait for their
// doorbell, is posted.
TEST_F(ReceiveSlotsTest, NeverRunDry) {
  for (uint32_t reserved = 1; reserved <= kMost; ++reserved) {
    Reserve(1);
    const uint32_t polled = std::min(reserved, ReceiveSlots::kPollBatch);
    for (int round = 0; round < 20; ++round) {
      // Messages arrive on every credit.
      ASSERT_GE(posted() - read_, reserved) << reserved;
      RepostOldest(polled);
    }
  }
}

TEST_F(ReceiveSlotsTest, PostAgainInBatches) {
  Reserve(kMost);
  const size_t before = posted();
  RepostOldest(ReceiveSlots::kBatch - 1);
  EXPECT_EQ(posted(), before);
  RepostOldest(1);
  ASSERT_EQ(posted(), before + ReceiveSlots::kBatch);
  for (uint32_t i = 0; i < ReceiveSlots::kBatch; ++i) {
    EXPECT_EQ(verbs_.receives[before + i].doorbell,
              verbs_.receives[before].doorbell);
  }
}

TEST_F(ReceiveSlotsTest, PostNoMoreThanIsReservedOnceTheOthersCameBack) {
  Reserve(100);
  ASSERT_TRUE(slots_.Unreserve(98).ok());
  const size_t before = posted();
  RepostOldest(static_cast<uint32_t>(before));
  EXPECT_LE(posted() - before, ReceiveSlots::QueueDepth(2));
  EXPECT_EQ(slots_.reserved(), 2u);
}

TEST_F(ReceiveSlotsTest, UseAgainWhatWasLeft) {
  Reserve(100);
  const size_t bytes = slots_.registered_bytes();
  const size_t before = posted();
  ASSERT_TRUE(slots_.Unreserve(50).ok());
  Reserve(50);
  EXPECT_EQ(posted(), before);
  ASSERT_TRUE(slots_.Unreserve(50).ok());
  RepostOldest(static_cast<uint32_t>(before));
  Reserve(50);
  EXPECT_EQ(posted() - read_, ReceiveSlots::QueueDepth(100));
  EXPECT_EQ(slots_.registered_bytes(), bytes);
}

TEST_F(ReceiveSlotsTest, StayValidWhenTheyMove) {
  Reserve(10);
  const uint8_t* const slot = slots_.Slot(3);
  ReceiveSlots moved = std::move(slots_);
  EXPECT_EQ(moved.Slot(3), slot);
  EXPECT_TRUE(moved.Repost(3).ok());
}

TEST_F(ReceiveSlotsTest, ReserveNothingWithoutMemory) {
  verbs_.make_error = ENOMEM;
  const absl::Status no_memory = slots_.Reserve(2);
  EXPECT_EQ(no_memory.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(no_memory.message(), HasSubstr("ulimit -l"));
  EXPECT_EQ(slots_.reserved(), 0u);
  verbs_.make_error = 0;
  Reserve(2);
  EXPECT_EQ(posted(), ReceiveSlots::QueueDepth(2));
}

TEST_F(ReceiveSlotsTest, SayThatTheDeviceTakesNoReceives) {
  verbs_.post_error = EIO;
  EXPECT_EQ(slots_.Reserve(1).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(slots_.reserved(), 0u);
}

TEST_F(ReceiveSlotsTest, PostWhatWasRefusedWhenTheNextAreReserved) {
  verbs_.post_error = EIO;
  EXPECT_FALSE(slots_.Reserve(2).ok());
  verbs_.post_error = 0;
  Reserve(2);
  EXPECT_EQ(posted(), ReceiveSlots::QueueDepth(2));
}

TEST_F(ReceiveSlotsTest, KnowThatTheyAreTooFewWhenTheDeviceRefusesThem) {
  Reserve(100);
  RepostOldest(ReceiveSlots::kBatch - 1);
  EXPECT_TRUE(slots_.complete());
  verbs_.post_error = EIO;
  EXPECT_FALSE(slots_.Repost(IndexOf(verbs_.receives[read_++])).ok());
  EXPECT_FALSE(slots_.complete());
  verbs_.post_error = 0;
  Reserve(1);
  EXPECT_TRUE(slots_.complete());
  EXPECT_EQ(posted() - read_, ReceiveSlots::QueueDepth(101));
}

TEST_F(ReceiveSlotsTest, LeaveOthersTheirsWhenNewOnesAreRefused) {
  Reserve(100);
  RepostOldest(3);  // They wait for their doorbell.
  verbs_.post_error = EIO;
  EXPECT_FALSE(slots_.Reserve(2).ok());
  EXPECT_FALSE(slots_.complete());
  verbs_.post_error = 0;
  EXPECT_TRUE(slots_.Reserve(2).ok());
  EXPECT_TRUE(slots_.complete());
}

}  // namespace
}  // namespace verbena::transport
