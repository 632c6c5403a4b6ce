#include "transport/device/send_buffers.h"

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

constexpr uint32_t kSlab = SendBuffers::kSlabBuffers;

class SendBuffersTest : public testing::Test {
 protected:
  // Takes every buffer there is.
  std::vector<uint32_t> TakeAll() {
    std::vector<uint32_t> taken;
    while (true) {
      const uint32_t index = buffers_.Acquire();
      if (index == SendBuffers::kNone) return taken;
      taken.push_back(index);
    }
  }

  FakeVerbs verbs_;
  ProtectionDomain pd_ =
      *ProtectionDomain::Create(verbs_.table(), verbs_.context());
  SendBuffers buffers_ = *SendBuffers::Create(pd_, 2 * kSlab, kSlab);
};

TEST_F(SendBuffersTest, BeginWithOneSlab) {
  EXPECT_EQ(buffers_.registered_bytes(), size_t{kSlab} * kBufferBytes);
  EXPECT_TRUE(buffers_.available());
}

TEST_F(SendBuffersTest, GrowToTheirBoundAndNoFurther) {
  const std::vector<uint32_t> taken = TakeAll();
  EXPECT_EQ(taken.size(), 3 * kSlab);
  EXPECT_EQ(std::set<uint32_t>(taken.begin(), taken.end()).size(),
            taken.size());
  EXPECT_EQ(buffers_.registered_bytes(), size_t{3} * kSlab * kBufferBytes);
  EXPECT_FALSE(buffers_.available());
}

TEST_F(SendBuffersTest, AreScarceWhenMoreThanHalfOfWhatIsSharedAreHeld) {
  std::vector<uint32_t> taken;
  while (taken.size() < kSlab) taken.push_back(buffers_.Acquire());
  EXPECT_FALSE(buffers_.Scarce());
  taken.push_back(buffers_.Acquire());
  EXPECT_TRUE(buffers_.Scarce());
  buffers_.Release(taken[0]);
  EXPECT_FALSE(buffers_.Scarce());
}

TEST_F(SendBuffersTest, AreScarceWhenAllAreHeldAndNoMoreCanBeRegistered) {
  for (uint32_t i = 0; i < kSlab; ++i) buffers_.Acquire();
  EXPECT_FALSE(buffers_.Scarce());
  EXPECT_TRUE(buffers_.available());
  for (uint32_t i = 1; i < kSlab; ++i) buffers_.Acquire();
  verbs_.make_error = ENOMEM;
  buffers_.Acquire();
  EXPECT_TRUE(buffers_.Scarce());
}

TEST_F(SendBuffersTest, GiveAConnectionNoMoreThanItLeavesForAll) {
  EXPECT_TRUE(buffers_.InShare(0, kSlab));
  EXPECT_FALSE(buffers_.InShare(0, kSlab + 1));
  for (uint32_t i = 0; i < kSlab; ++i) {
    EXPECT_TRUE(buffers_.InShare(i, 1)) << i;
    buffers_.Acquire();
  }
  EXPECT_FALSE(buffers_.InShare(kSlab, 1));
  EXPECT_TRUE(buffers_.InShare(kSlab - 1, 1));
  // Another that has none yet.
  EXPECT_TRUE(buffers_.InShare(0, 1));
  for (uint32_t i = 0; i < kSlab; ++i) buffers_.Acquire();
  // The reserve alone is left.
  EXPECT_FALSE(buffers_.InShare(0, 1));
  EXPECT_TRUE(buffers_.available());
}

TEST_F(SendBuffersTest, GiveTheOneUsedLastFirst) {
  const uint32_t a = buffers_.Acquire();
  const uint32_t b = buffers_.Acquire();
  buffers_.Release(a);
  buffers_.Release(b);
  EXPECT_EQ(buffers_.Acquire(), b);
  EXPECT_EQ(buffers_.Acquire(), a);
}

TEST_F(SendBuffersTest, HaveMemoryOfTheirOwn) {
  std::set<uint8_t*> addresses;
  for (const uint32_t index : TakeAll()) {
    addresses.insert(buffers_.At(index));
    EXPECT_NE(buffers_.lkey(index), 0u);
  }
  uint8_t* last = nullptr;
  for (uint8_t* const address : addresses) {
    if (last != nullptr) {
      EXPECT_GE(address, last + kBufferBytes);
    }
    last = address;
  }
}

TEST_F(SendBuffersTest, MakeDoWithWhatThereIsWhenNoMoreCanBeRegistered) {
  verbs_.make_error = ENOMEM;
  const std::vector<uint32_t> taken = TakeAll();
  EXPECT_EQ(taken.size(), kSlab);
  EXPECT_FALSE(buffers_.available());
  buffers_.Release(taken[0]);
  EXPECT_TRUE(buffers_.available());
  EXPECT_EQ(buffers_.Acquire(), taken[0]);
}

TEST_F(SendBuffersTest, SayWhyThereIsNotEvenOne) {
  verbs_.make_error = ENOMEM;
  EXPECT_EQ(SendBuffers::Create(pd_, 1, 0).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace verbena::transport
