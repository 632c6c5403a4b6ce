#include "tests/conformance/differences.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

namespace verbena::conformance {
namespace {

TEST(DifferencesTest, EachSaysWhatHappensInsteadAndWhyOnce) {
  std::set<std::pair<std::string, Promise>> seen;
  for (const Difference& difference : Differences()) {
    EXPECT_FALSE(difference.device.empty());
    EXPECT_FALSE(difference.instead.empty());
    EXPECT_FALSE(difference.why.empty());
    EXPECT_TRUE(
        seen.emplace(std::string(difference.device), difference.promise).second)
        << difference.instead << " stands there twice";
  }
}

}  // namespace
}  // namespace verbena::conformance
