#include "rpc/services/admin/log_tail.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace verbena {
namespace {

TEST(LogTail, KeepsTheLastEntriesAndPassesAllOn) {
  const auto tail = std::make_shared<LogTail>();
  std::vector<std::string> passed;
  const LogSink sink = tail->Sink(
      [&](const LogEntry& entry) { passed.emplace_back(entry.text); });
  for (size_t i = 0; i < LogTail::kMost + 3; ++i) {
    const std::string text = absl::StrCat(i);
    sink({LogSeverity::kInfo, absl::UnixEpoch(), text});
  }
  EXPECT_EQ(passed.size(), LogTail::kMost + 3);
  const std::vector<LogTail::Line> lines = tail->lines();
  ASSERT_EQ(lines.size(), LogTail::kMost);
  EXPECT_EQ(lines.front().text, "3");
  EXPECT_EQ(lines.back().text, absl::StrCat(LogTail::kMost + 2));
}

TEST(LogTail, WithoutAnotherSinkWarningsGoToStandardError) {
  const auto tail = std::make_shared<LogTail>();
  const LogSink sink = tail->Sink();
  testing::internal::CaptureStderr();
  sink({LogSeverity::kInfo, absl::UnixEpoch(), "came"});
  sink({LogSeverity::kWarning, absl::UnixEpoch(), "is full"});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "verbena: is full\n");
  EXPECT_EQ(tail->lines().size(), 2u);
}

}  // namespace
}  // namespace verbena
