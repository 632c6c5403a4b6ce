#include "tools/verbena/shown_text.h"

#include <gtest/gtest.h>

#include <string>

namespace verbena::tool {
namespace {

TEST(ShownTextTest, WordsOfAllLanguagesStay) {
  for (const char* text : {"", "plain", "Gr\xc3\xbc\xc3\x9f",
                           "\xe4\xbd\xa0\xe5\xa5\xbd", "\xf0\x9f\x8c\xbf"}) {
    EXPECT_EQ(ShownText(text), text);
    EXPECT_EQ(ShownLine(text), text);
  }
}

TEST(ShownTextTest, ControlsOfOneAndOfTwoBytesAreEscaped) {
  EXPECT_EQ(ShownLine("a\x1b[2Jb\x7f\r"), "a\\x1b[2Jb\\x7f\\x0d");
  EXPECT_EQ(ShownLine(std::string("\0", 1)), "\\x00");
  // CSI and OSC of C1, as UTF-8 and as a terminal of 8 bits has them.
  EXPECT_EQ(ShownLine("\xc2\x9b"
                      "2J"),
            "\\xc2\\x9b2J");
  EXPECT_EQ(ShownLine("\x9d"), "\\x9d");
}

TEST(ShownTextTest, WhatHidesOrTurnsOtherWordsIsEscaped) {
  EXPECT_EQ(ShownLine("\xe2\x80\xae"), "\\xe2\\x80\\xae");  // Right to left.
  EXPECT_EQ(ShownLine("\xe2\x80\xa8"), "\\xe2\\x80\\xa8");  // A new line.
}

TEST(ShownTextTest, WhatIsNoUtf8IsEscaped) {
  EXPECT_EQ(ShownLine("\xff"), "\\xff");
  EXPECT_EQ(ShownLine("\xc3"), "\\xc3");                    // Ends too early.
  EXPECT_EQ(ShownLine("\xc0\x9b"), "\\xc0\\x9b");           // Overlong.
  EXPECT_EQ(ShownLine("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // A surrogate.
}

TEST(ShownTextTest, NewlinesStayWhereThereMayBeSeveralLines) {
  EXPECT_EQ(ShownText("a\nb"), "a\nb");
  EXPECT_EQ(ShownLine("a\nb"), "a\\x0ab");
}

}  // namespace
}  // namespace verbena::tool
