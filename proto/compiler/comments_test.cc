#include "proto/compiler/comments.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace verbena::compiler {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(CommentLinesTest, NothingGivesNothing) {
  EXPECT_THAT(CommentLines(""), IsEmpty());
  EXPECT_THAT(CommentLines(" \n \n"), IsEmpty());
}

TEST(CommentLinesTest, EveryLineIsAComment) {
  EXPECT_THAT(CommentLines(" One.\n\nTwo.\n"),
              ElementsAre("// One.", "//", "// Two."));
}

TEST(CommentLinesTest, IndentationStays) {
  EXPECT_THAT(CommentLines(" List:\n   - item  \n"),
              ElementsAre("// List:", "//   - item"));
}

TEST(CommentLinesTest, ABackslashCannotContinueALine) {
  EXPECT_THAT(CommentLines(" C:\\temp\\  \n next"),
              ElementsAre("// C:\\temp\\.", "// next"));
}

}  // namespace
}  // namespace verbena::compiler
