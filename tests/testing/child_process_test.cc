#include "tests/testing/child_process.h"

#include "gtest/gtest.h"

namespace verbena::testing_support {
namespace {

TEST(WordAfterTest, EndsAtASpaceOrTheEnd) {
  EXPECT_EQ(WordAfter("on ", "listening on a:1 via soft"), "a:1");
  EXPECT_EQ(WordAfter("via ", "listening on a:1 via soft"), "soft");
  EXPECT_EQ(WordAfter("at ", "listening on a:1 via soft"), "");
}

}  // namespace
}  // namespace verbena::testing_support
