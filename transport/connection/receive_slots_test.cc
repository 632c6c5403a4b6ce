#include "transport/connection/receive_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <set>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/base/limits.h"
#include "transport/verbs/fake_verbs.h"
#include "transport/verbs/protection_domain.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kConnections = 3;
constexpr uint32_t kExtra = ReceiveSlots::kExtra;

uint32_t IndexOf(const FakeWorkRequest& receive) {
  EXPECT_NE(receive.wr_id & ReceiveSlots::kReceiveTag, 0u);
  return static_cast<uint32_t>(receive.wr_id);
}

class ReceiveSlotsTest : public testing::Test {
 protected:
  size_t posted() const { return verbs_.receives.size(); }

  FakeVerbs verbs_;
  ProtectionDomain pd_ =
      *ProtectionDomain::Create(verbs_.table(), verbs_.context());
  ReceiveSlots slots_ = *ReceiveSlots::Create(pd_, kConnections);
};

TEST_F(ReceiveSlotsTest, BeginsWithTheExtraReceives) {
  EXPECT_EQ(posted(), kExtra);
  EXPECT_NE(slots_.srq(), nullptr);
}

TEST_F(ReceiveSlotsTest, PostsTheReceivesOfEveryConnection) {
  for (uint32_t i = 1; i <= kConnections; ++i) {
    ASSERT_TRUE(slots_.Reserve().ok());
    EXPECT_EQ(posted(), kExtra + i * kReceivesPerConnection);
  }
  EXPECT_EQ(posted(), ReceiveSlots::QueueDepth(kConnections));
}

TEST_F(ReceiveSlotsTest, RefusesOneConnectionTooMany) {
  for (uint32_t i = 0; i < kConnections; ++i) {
    ASSERT_TRUE(slots_.Reserve().ok());
  }
  const absl::Status full = slots_.Reserve();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(full.message(), HasSubstr("all 3 connections"));
  slots_.Unreserve();
  EXPECT_TRUE(slots_.Reserve().ok());
}

TEST_F(ReceiveSlotsTest, UsesWhatAClosedConnectionLeft) {
  ASSERT_TRUE(slots_.Reserve().ok());
  slots_.Unreserve();
  const size_t before = posted();
  ASSERT_TRUE(slots_.Reserve().ok());
  EXPECT_EQ(posted(), before);
}

TEST_F(ReceiveSlotsTest, GivesEveryReceiveMemoryOfItsOwn) {
  for (uint32_t i = 0; i < kConnections; ++i) {
    ASSERT_TRUE(slots_.Reserve().ok());
  }
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

TEST_F(ReceiveSlotsTest, PostsAgainInBatches) {
  const size_t before = posted();
  for (uint32_t i = 0; i < ReceiveSlots::kBatch - 1; ++i) {
    ASSERT_TRUE(slots_.Repost(i).ok());
  }
  EXPECT_EQ(posted(), before);
  ASSERT_TRUE(slots_.Repost(ReceiveSlots::kBatch - 1).ok());
  ASSERT_EQ(posted(), before + ReceiveSlots::kBatch);
  for (uint32_t i = 0; i < ReceiveSlots::kBatch; ++i) {
    EXPECT_EQ(IndexOf(verbs_.receives[before + i]), i);
    EXPECT_EQ(verbs_.receives[before + i].doorbell,
              verbs_.receives[before].doorbell);
  }
}

TEST_F(ReceiveSlotsTest, StaysValidWhenItMoves) {
  const uint8_t* const slot = slots_.Slot(3);
  ReceiveSlots moved = std::move(slots_);
  EXPECT_EQ(moved.Slot(3), slot);
  EXPECT_TRUE(moved.Repost(3).ok());
}

TEST_F(ReceiveSlotsTest, SaysWhyThereIsNoRoomForAConnection) {
  verbs_.make_error = ENOMEM;
  const absl::Status no_memory = slots_.Reserve();
  EXPECT_EQ(no_memory.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(no_memory.message(), HasSubstr("ulimit -l"));
  verbs_.make_error = 0;
  ASSERT_TRUE(slots_.Reserve().ok());
  EXPECT_EQ(posted(), kExtra + kReceivesPerConnection);
}

TEST_F(ReceiveSlotsTest, SaysThatTheDeviceTakesNoReceives) {
  verbs_.post_error = EIO;
  for (uint32_t i = 0; i < ReceiveSlots::kBatch - 1; ++i) {
    ASSERT_TRUE(slots_.Repost(i).ok());
  }
  EXPECT_EQ(slots_.Repost(kExtra - 1).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace verbena::transport
