#include "rpc/internal/codec/status_text.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace verbena::internal {
namespace {

TEST(StatusTextTest, TheUnknownMethodIsNamedByItsWholeHash) {
  EXPECT_EQ(UnknownMethodText(0xabc),
            "no method with the hash 0x0000000000000abc");
}

TEST(StatusTextTest, AnAnnotatedStatusKeepsItsCode) {
  EXPECT_EQ(Annotate(absl::UnavailableError("gone"), "a.B/C"),
            absl::UnavailableError("a.B/C: gone"));
}

TEST(StatusTextTest, CodesThatDoNotExistBecomeUnknown) {
  EXPECT_EQ(KnownCode(absl::StatusCode::kUnauthenticated),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(KnownCode(static_cast<absl::StatusCode>(17)),
            absl::StatusCode::kUnknown);
  EXPECT_EQ(KnownCode(static_cast<absl::StatusCode>(-1)),
            absl::StatusCode::kUnknown);
}

}  // namespace
}  // namespace verbena::internal
