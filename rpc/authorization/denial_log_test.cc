#include "rpc/authorization/denial_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "transport/base/log.h"

namespace verbena::internal {
namespace {

using testing::SizeIs;
using transport::AuthContext;

TEST(DenialLogTest, TellsOfTheFirstOfEachPeriodAndCountsTheOthers) {
  DenialLog log;
  absl::Time now = absl::UnixEpoch();
  for (int i = 0; i < DenialLog::kMost; ++i) {
    EXPECT_EQ(log.Count(now), 0) << i;
    now += absl::Milliseconds(1);
  }
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(log.Count(now), std::nullopt);
  now = absl::UnixEpoch() + DenialLog::kPeriod;
  EXPECT_EQ(log.Count(now), 5000);
  EXPECT_EQ(log.Count(now), 0);
  // A period begins with its first call, not when the one before has ended.
  now += absl::Hours(1);
  for (int i = 0; i < DenialLog::kMost; ++i) EXPECT_EQ(log.Count(now), 0);
  now += DenialLog::kPeriod - absl::Milliseconds(1);
  EXPECT_EQ(log.Count(now), std::nullopt);
  now += absl::Milliseconds(1);
  EXPECT_EQ(log.Count(now), 1);
}

class DenialTextTest : public testing::Test {
 protected:
  DenialTextTest() {
    peer_.AddProperty("user", "1000");
    peer_.SetPeerIdentityPropertyName("user");
  }
  ~DenialTextTest() override {
    base::Log::OfProcess().Set(nullptr, LogSeverity::kWarning);
  }

  std::string Text(const std::string& path, const std::string& rule) {
    return DenialText({.path = path, .peer = peer_, .metadata = metadata_},
                      "10.0.0.7:41234", "p", rule);
  }

  AuthContext peer_;
  const Metadata metadata_;
};

TEST_F(DenialTextTest, NamesTheMethodTheClientAndTheRule) {
  EXPECT_EQ(Text("/a.B/C", "r"),
            "denied a call of /a.B/C by \"1000\" at 10.0.0.7:41234: the deny "
            "rule \"r\" of the policy \"p\" matches");
  EXPECT_EQ(Text("/a.B/C", ""),
            "denied a call of /a.B/C by \"1000\" at 10.0.0.7:41234: no allow "
            "rule of the policy \"p\" matches");
  peer_ = AuthContext();
  EXPECT_EQ(Text("/a.B/C", ""),
            "denied a call of /a.B/C by a client without a name at "
            "10.0.0.7:41234: no allow rule of the policy \"p\" matches");
}

TEST_F(DenialTextTest, EscapesAndCutsWhatAClientHasChosen) {
  peer_ = AuthContext();
  for (int i = 0; i < 9; ++i) peer_.AddProperty("n", absl::StrCat("a\n", i));
  peer_.SetPeerIdentityPropertyName("n");
  EXPECT_EQ(Text("/" + std::string(1000, 'x'), "r"),
            "denied a call of /" + std::string(199, 'x') +
                "... by \"a\\n0\", \"a\\n1\", \"a\\n2\", \"a\\n3\", ... at "
                "10.0.0.7:41234: the deny rule \"r\" of the policy \"p\" "
                "matches");
}

TEST_F(DenialTextTest, IsLoggedAsAWarning) {
  std::vector<std::string> lines;
  base::Log::OfProcess().Set(
      [&lines](const LogEntry& entry) {
        EXPECT_EQ(entry.severity, LogSeverity::kWarning);
        lines.emplace_back(entry.text);
      },
      LogSeverity::kInfo);
  DenialLog log;
  const PolicyRequest request = {
      .path = "/a.B/C", .peer = peer_, .metadata = metadata_};
  for (int i = 0; i < 1000; ++i) log.Note(request, "10.0.0.7:1", "p", "r");
  ASSERT_THAT(lines, SizeIs(DenialLog::kMost));
  EXPECT_EQ(lines[0],
            "denied a call of /a.B/C by \"1000\" at 10.0.0.7:1: the deny rule "
            "\"r\" of the policy \"p\" matches");
}

}  // namespace
}  // namespace verbena::internal
