#include "transport/verbs/memory_region.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "transport/verbs/fake_verbs.h"

namespace verbena::transport {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class MemoryRegionTest : public testing::Test {
 protected:
  FakeVerbs verbs_;
  ProtectionDomain pd_ =
      *ProtectionDomain::Create(verbs_.table(), verbs_.context());
  std::array<uint8_t, 512> memory_;
};

TEST_F(MemoryRegionTest, RegistersTheMemoryWithTheAccessAskedFor) {
  const absl::StatusOr<MemoryRegion> region = MemoryRegion::Create(
      pd_, absl::MakeSpan(memory_), IBV_ACCESS_LOCAL_WRITE);
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_THAT(verbs_.calls, Contains("reg_mr 512 1"));
  EXPECT_EQ(region->get()->addr, memory_.data());
  EXPECT_EQ(region->lkey(), region->get()->lkey);
  EXPECT_EQ(region->rkey(), region->get()->rkey);
}

TEST_F(MemoryRegionTest, NamesTheRemedyWhenMemoryCannotBeLocked) {
  verbs_.make_error = ENOMEM;
  const absl::Status status =
      MemoryRegion::Create(pd_, absl::MakeSpan(memory_), 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("reg_mr 512 bytes"));
  EXPECT_THAT(status.message(), HasSubstr("ulimit -l"));
}

}  // namespace
}  // namespace verbena::transport
