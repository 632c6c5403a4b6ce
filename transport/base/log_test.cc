#include "transport/base/log.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace verbena::base {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::StartsWith;

TEST(LogTest, WarningsGoToStandardErrorWithoutASink) {
  Log log;
  ::testing::internal::CaptureStderr();
  log.Write(LogSeverity::kInfo, "all is well");
  log.Write(LogSeverity::kWarning, "look at this");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "verbena: look at this\n");
  EXPECT_FALSE(log.Wants(LogSeverity::kInfo));
}

TEST(LogTest, ASinkGetsWhatIsAsSevereAsItAskedFor) {
  Log log;
  std::vector<std::string> texts;
  const absl::Time before = absl::Now();
  log.Set(
      [&](const LogEntry& entry) {
        EXPECT_GE(entry.time, before);
        texts.emplace_back(entry.text);
      },
      LogSeverity::kInfo);
  log.Write(LogSeverity::kInfo, "one");
  log.Write(LogSeverity::kWarning, "two");
  log.Set(nullptr, LogSeverity::kWarning);
  log.Write(LogSeverity::kInfo, "three");
  EXPECT_THAT(texts, ElementsAre("one", "two"));
}

TEST(LogTest, AFloodIsCutAndCounted) {
  Log log;
  std::vector<std::string> texts;
  log.Set([&](const LogEntry& entry) { texts.emplace_back(entry.text); },
          LogSeverity::kInfo);
  // Until a second is over and what was left out is told.
  int written = 0;
  while (texts.size() <= Log::kMostASecond) {
    log.Write(LogSeverity::kInfo, absl::StrCat("line ", written++));
  }
  // The first second's, the note, and the line that brought it.
  ASSERT_EQ(texts.size(), Log::kMostASecond + 2u);
  EXPECT_EQ(texts[0], "line 0");
  EXPECT_THAT(texts[Log::kMostASecond],
              StartsWith(absl::StrCat(written - 1 - Log::kMostASecond,
                                      " entries before this one")));
  EXPECT_THAT(texts.back(), EndsWith(absl::StrCat(written - 1)));
}

}  // namespace
}  // namespace verbena::base
