#include "transport/connection/send_slots.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "transport/base/limits.h"
#include "transport/verbs/fake_verbs.h"
#include "transport/verbs/protection_domain.h"

namespace verbena::transport {
namespace {

constexpr uint32_t kSlab = SendSlots::kSlabSlots;

class SendSlotsTest : public testing::Test {
 protected:
  // Takes every slot there is.
  std::vector<uint32_t> TakeAll() {
    std::vector<uint32_t> taken;
    while (true) {
      const uint32_t index = slots_.Acquire();
      if (index == SendSlots::kNone) return taken;
      taken.push_back(index);
    }
  }

  FakeVerbs verbs_;
  ProtectionDomain pd_ =
      *ProtectionDomain::Create(verbs_.table(), verbs_.context());
  SendSlots slots_ = *SendSlots::Create(pd_, 3 * kSlab);
};

TEST_F(SendSlotsTest, BeginWithOneSlab) {
  EXPECT_EQ(slots_.registered_bytes(), size_t{kSlab} * kSlotBytes);
  EXPECT_TRUE(slots_.available());
}

TEST_F(SendSlotsTest, GrowToTheirBoundAndNoFurther) {
  const std::vector<uint32_t> taken = TakeAll();
  EXPECT_EQ(taken.size(), 3 * kSlab);
  EXPECT_EQ(std::set<uint32_t>(taken.begin(), taken.end()).size(),
            taken.size());
  EXPECT_EQ(slots_.registered_bytes(), size_t{3} * kSlab * kSlotBytes);
  EXPECT_FALSE(slots_.available());
}

TEST_F(SendSlotsTest, GiveTheOneUsedLastFirst) {
  const uint32_t a = slots_.Acquire();
  const uint32_t b = slots_.Acquire();
  slots_.Release(a);
  slots_.Release(b);
  EXPECT_EQ(slots_.Acquire(), b);
  EXPECT_EQ(slots_.Acquire(), a);
}

TEST_F(SendSlotsTest, HaveMemoryOfTheirOwn) {
  std::set<uint8_t*> addresses;
  for (const uint32_t index : TakeAll()) {
    addresses.insert(slots_.Slot(index));
    EXPECT_NE(slots_.lkey(index), 0u);
  }
  uint8_t* last = nullptr;
  for (uint8_t* const address : addresses) {
    if (last != nullptr) {
      EXPECT_GE(address, last + kSlotBytes);
    }
    last = address;
  }
}

TEST_F(SendSlotsTest, MakeDoWithWhatThereIsWhenNoMoreCanBeRegistered) {
  verbs_.make_error = ENOMEM;
  const std::vector<uint32_t> taken = TakeAll();
  EXPECT_EQ(taken.size(), kSlab);
  EXPECT_FALSE(slots_.available());
  slots_.Release(taken[0]);
  EXPECT_TRUE(slots_.available());
  EXPECT_EQ(slots_.Acquire(), taken[0]);
}

TEST_F(SendSlotsTest, SayWhyThereIsNotEvenOne) {
  verbs_.make_error = ENOMEM;
  EXPECT_EQ(SendSlots::Create(pd_, 1).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace verbena::transport
