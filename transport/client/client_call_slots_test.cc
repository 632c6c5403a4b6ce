#include "transport/client/client_call_slots.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace verbena::transport {
namespace {

TEST(ClientCallSlotsTest, FindsOpenCallsOnly) {
  ClientCallSlots slots;
  slots.Resize(2);
  EXPECT_EQ(slots.Find(0), nullptr);
  const uint32_t first = slots.next().call_id;
  slots.Take(nullptr);
  const uint32_t second = slots.next().call_id;
  slots.Take(nullptr);
  EXPECT_TRUE(slots.full());
  EXPECT_NE(first, second);
  ASSERT_NE(slots.Find(first), nullptr);
  EXPECT_EQ(slots.Find(first)->call_id, first);
  EXPECT_EQ(slots.Find(second), &slots.at(ClientCallSlots::IndexOf(second)));
  EXPECT_EQ(slots.Find(2), nullptr);
  EXPECT_EQ(slots.Find(UINT32_MAX), nullptr);
  EXPECT_EQ(slots.Find(first + 0x10000), nullptr);
}

TEST(ClientCallSlotsTest, GivesASlotThatIsUsedAgainAnotherId) {
  ClientCallSlots slots;
  slots.Resize(1);
  const uint32_t first = slots.next().call_id;
  slots.Take(nullptr);
  slots.Find(first)->cancel_due = true;
  slots.Free(slots.Find(first));
  EXPECT_EQ(slots.Find(first), nullptr);
  const uint32_t second = slots.next().call_id;
  slots.Take(nullptr);
  EXPECT_NE(first, second);
  EXPECT_EQ(slots.Find(first), nullptr);
  ASSERT_NE(slots.Find(second), nullptr);
  EXPECT_FALSE(slots.Find(second)->cancel_due);
}

}  // namespace
}  // namespace verbena::transport
