#include "tools/command_line/parse_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

ABSL_FLAG(std::vector<std::string>, colours, {"grey"}, "which of them");
ABSL_FLAG(int, number, 1, "how many of them");
ABSL_FLAG(bool, quick, false, "not to be slow");

namespace verbena::tool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::vector<std::string>> Parse(std::vector<std::string> words) {
  std::vector<char*> argv = {nullptr};
  for (std::string& word : words) argv.push_back(word.data());
  return ParseFlags(static_cast<int>(argv.size()), argv.data());
}

TEST(ParseFlagsTest, SetsFlagsAndReturnsTheOtherWords) {
  const absl::FlagSaver saver;
  const absl::StatusOr<std::vector<std::string>> words =
      Parse({"list", "--number=7", "-quick", "-", "--", "--more"});
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_THAT(*words, ElementsAre("list", "-", "--more"));
  EXPECT_EQ(absl::GetFlag(FLAGS_number), 7);
  EXPECT_TRUE(absl::GetFlag(FLAGS_quick));
}

TEST(ParseFlagsTest, TakesTheFormsThatAbslTakes) {
  const absl::FlagSaver saver;
  const absl::StatusOr<std::vector<std::string>> words =
      Parse({"--quick=true", "--number", "8", "ping", "--noquick"});
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_THAT(*words, ElementsAre("ping"));
  EXPECT_EQ(absl::GetFlag(FLAGS_number), 8);
  EXPECT_FALSE(absl::GetFlag(FLAGS_quick));
}

TEST(ParseFlagsTest, AListThatIsGivenAgainGoesOn) {
  const absl::FlagSaver saver;
  ASSERT_TRUE(Parse({"--colours=red", "--colours", "blue,green"}).ok());
  EXPECT_THAT(absl::GetFlag(FLAGS_colours),
              ElementsAre("red", "blue", "green"));
}

TEST(ParseFlagsTest, HelpSaysWhatEachFlagMeans) {
  EXPECT_THAT(FlagsHelp(), HasSubstr("  --number=1\n      how many of them\n"
                                     "  --quick=false\n"));
}

TEST(ParseFlagsTest, SaysWhatIsWrong) {
  const absl::FlagSaver saver;
  const std::pair<const char*, const char*> cases[] = {
      {"--colour=red", "unknown flag --colour=red"},
      {"--nonumber", "unknown flag --nonumber"},
      {"--number", "--number needs a value"},
      {"--number=many", "it is: how many of them"},
      {"--quick=perhaps", "it is: not to be slow"},
  };
  for (const auto& [argument, message] : cases) {
    const absl::Status status = Parse({argument}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << argument;
    EXPECT_THAT(status.message(), HasSubstr(message));
  }
}

}  // namespace
}  // namespace verbena::tool
