#include "tools/command_line/parse_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

ABSL_FLAG(std::vector<std::string>, colours, {"grey"}, "which of them");
ABSL_FLAG(int, number, 1, "how many of them");
ABSL_FLAG(bool, quick, false, "not to be slow");
ABSL_FLAG(int, shoe_size, 40, "how large\nthey are");

namespace verbena::tool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<CommandLine> Parse(std::vector<std::string> words,
                                  const ImpliedValues& implied = {}) {
  std::vector<char*> argv = {nullptr};
  for (std::string& word : words) argv.push_back(word.data());
  return ParseFlags(static_cast<int>(argv.size()), argv.data(), implied);
}

TEST(ParseFlagsTest, SetsFlagsAndReturnsTheOtherWords) {
  const absl::FlagSaver saver;
  const absl::StatusOr<CommandLine> line =
      Parse({"list", "--number=7", "-quick", "-", "--", "--more"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->words, ElementsAre("list", "-", "--more"));
  EXPECT_THAT(line->given, ElementsAre("number", "quick"));
  EXPECT_EQ(absl::GetFlag(FLAGS_number), 7);
  EXPECT_TRUE(absl::GetFlag(FLAGS_quick));
}

TEST(ParseFlagsTest, HyphensStandForUnderscores) {
  const absl::FlagSaver saver;
  for (const char* argument : {"--shoe-size=1", "--shoe_size=2"}) {
    const absl::StatusOr<CommandLine> line = Parse({argument});
    ASSERT_TRUE(line.ok()) << line.status();
    EXPECT_THAT(line->given, ElementsAre("shoe_size"));
  }
  EXPECT_EQ(absl::GetFlag(FLAGS_shoe_size), 2);
}

TEST(ParseFlagsTest, AFlagMayImplyItsValue) {
  const absl::FlagSaver saver;
  for (const char* next : {"word", "--quick"}) {
    ASSERT_TRUE(Parse({"--number", next}, {{"number", "9"}}).ok());
    EXPECT_EQ(absl::GetFlag(FLAGS_number), 9);
  }
  ASSERT_TRUE(Parse({"--number=3"}, {{"number", "9"}}).ok());
  EXPECT_EQ(absl::GetFlag(FLAGS_number), 3);
}

TEST(ParseFlagsTest, TakesTheFormsThatAbslTakes) {
  const absl::FlagSaver saver;
  const absl::StatusOr<CommandLine> line =
      Parse({"--quick=true", "--number", "8", "ping", "--noquick"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->words, ElementsAre("ping"));
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
  EXPECT_THAT(FlagsHelp(), HasSubstr("  --number (1)\n      how many of them\n"
                                     "  --quick\n      not to be slow\n"
                                     "  --shoe-size (40)\n      how large\n"
                                     "      they are\n"));
}

TEST(ParseFlagsTest, SaysWhatIsWrong) {
  const absl::FlagSaver saver;
  const std::pair<const char*, const char*> cases[] = {
      {"--colour=red", "unknown flag --colour=red"},
      {"--nonumber", "unknown flag --nonumber"},
      {"--noquick=true", "unknown flag --noquick=true"},
      {"--number", "--number needs a value"},
      {"--colours=", "--colours= needs at least one value"},
      {"--number=many", "the flag means: how many of them"},
      {"--quick=perhaps", "the flag means: not to be slow"},
  };
  for (const auto& [argument, message] : cases) {
    const absl::Status status = Parse({argument}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << argument;
    EXPECT_THAT(status.message(), HasSubstr(message));
  }
}

// Runs the beginning of a main() that takes no words.
void Begin(std::vector<std::string> words) {
  std::vector<char*> argv = {nullptr};
  for (std::string& word : words) argv.push_back(word.data());
  ReadCommandLine(static_cast<int>(argv.size()), argv.data(),
                  {.name = "painter", .about = " paints\n"});
  std::cerr << "goes on with " << absl::GetFlag(FLAGS_number) << std::endl;
  std::exit(EXIT_SUCCESS);
}

TEST(ReadCommandLineTest, GoesOnOrEndsTheProgram) {
  using testing::ExitedWithCode;
  EXPECT_EXIT(Begin({"--number=7"}), ExitedWithCode(0), "goes on with 7");
  // gtest sees standard error only.
  EXPECT_EXIT(Begin({"--help"}), ExitedWithCode(0), "^$");
  EXPECT_EXIT(Begin({"--version"}), ExitedWithCode(0), "^$");
  EXPECT_EXIT(Begin({"--colour=red"}), ExitedWithCode(2),
              "painter: unknown flag --colour=red");
  EXPECT_EXIT(Begin({"red"}), ExitedWithCode(2),
              "painter: unexpected argument red; flags begin with --");
}

}  // namespace
}  // namespace verbena::tool
