#include "transport/verbs/protection_domain.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/verbs/fake_verbs.h"

namespace verbena::transport {
namespace {

TEST(ProtectionDomainTest, LivesAsLongAsItsOwner) {
  FakeVerbs verbs;
  {
    const absl::StatusOr<ProtectionDomain> pd =
        ProtectionDomain::Create(verbs.table(), verbs.context());
    ASSERT_TRUE(pd.ok()) << pd.status();
    EXPECT_EQ(pd->get()->context, verbs.context());
  }
  EXPECT_TRUE(verbs.empty());
}

TEST(ProtectionDomainTest, SaysWhyThereIsNone) {
  FakeVerbs verbs;
  verbs.make_error = ENOMEM;
  EXPECT_EQ(
      ProtectionDomain::Create(verbs.table(), verbs.context()).status().code(),
      absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace verbena::transport
