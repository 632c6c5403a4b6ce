#include "rpc/internal/client/backoff.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace verbena::internal {
namespace {

void ExpectAbout(absl::Duration pause, absl::Duration expected) {
  EXPECT_GE(pause, expected * 0.8);
  EXPECT_LE(pause, expected * 1.2);
}

TEST(BackoffTest, DoublesUpToTheMaximum) {
  Backoff backoff(absl::Milliseconds(50), absl::Milliseconds(150));
  ExpectAbout(backoff.Next(), absl::Milliseconds(50));
  ExpectAbout(backoff.Next(), absl::Milliseconds(100));
  ExpectAbout(backoff.Next(), absl::Milliseconds(150));
  ExpectAbout(backoff.Next(), absl::Milliseconds(150));
}

TEST(BackoffTest, SuccessStartsOver) {
  Backoff backoff(absl::Milliseconds(50), absl::Seconds(5));
  backoff.Next();
  backoff.Next();
  backoff.Reset();
  ExpectAbout(backoff.Next(), absl::Milliseconds(50));
}

}  // namespace
}  // namespace verbena::internal
