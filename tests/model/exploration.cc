#include "tests/model/exploration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <cstdio>

#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "tests/model/command_line.h"

namespace verbena::model {

double ProcessorSeconds() {
  timespec now = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return absl::ToDoubleSeconds(absl::DurationFromTimespec(now));
}

void ExpectRight(const char* model, const Exploration& found) {
  EXPECT_EQ(found.wrong, "") << absl::StrJoin(found.trace, "\n");
  EXPECT_TRUE(found.wrong != "" || found.whole) << "some states were left out";
  std::printf("%s: %lu states, %lu steps, depth %u, %.1f s\n", model,
              static_cast<unsigned long>(found.states),
              static_cast<unsigned long>(found.steps), found.depth,
              found.seconds);
}

void ExpectWrong(const char* wrong, const Exploration& found) {
  EXPECT_THAT(found.wrong, testing::HasSubstr(wrong))
      << absl::StrJoin(found.trace, "\n");
  if (ShowsTraces()) {
    std::printf("%s\n  => %s\n", absl::StrJoin(found.trace, "\n").c_str(),
                found.wrong.c_str());
  }
}

}  // namespace verbena::model
