#include "rpc/internal/metrics/call_sampler.h"

#include "gtest/gtest.h"

namespace verbena::internal {
namespace {

int TimedOf(CallSampler& sampler, int calls) {
  int timed = 0;
  for (int i = 0; i < calls; ++i) timed += sampler.IsNextTimed() ? 1 : 0;
  return timed;
}

TEST(CallSamplerTest, OfFewOpenCallsEachIsTimed) {
  CallSampler sampler;
  EXPECT_EQ(TimedOf(sampler, 80), 80);
  for (int i = 0; i < 7; ++i) sampler.NoteStart();
  EXPECT_EQ(TimedOf(sampler, 80), 80);
}

TEST(CallSamplerTest, OfManyOneInEightIs) {
  CallSampler sampler;
  for (int i = 0; i < 8; ++i) sampler.NoteStart();
  EXPECT_EQ(TimedOf(sampler, 80), 10);
  sampler.NoteEnd();
  EXPECT_EQ(TimedOf(sampler, 80), 80);
}

}  // namespace
}  // namespace verbena::internal
