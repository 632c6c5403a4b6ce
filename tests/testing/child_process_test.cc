#include "tests/testing/child_process.h"

#include <csignal>

#include "gtest/gtest.h"

namespace verbena::testing_support {
namespace {

TEST(ChildProcessTest, GivesOutputErrorsAndExitCode) {
  const Ran ran = RunToEnd({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"});
  EXPECT_EQ(ran.exit_code, 3);
  EXPECT_EQ(ran.output, "out\n");
  EXPECT_EQ(ran.errors, "err\n");
}

TEST(ChildProcessTest, ReadsLineByLine) {
  ChildProcess process({"/bin/sh", "-c", "echo one; echo two; printf three"});
  EXPECT_EQ(process.ReadLine(), "one");
  EXPECT_EQ(process.ReadLine(), "two");
  EXPECT_EQ(process.ReadLine(), "three");
  EXPECT_EQ(process.ReadLine(), "");
  EXPECT_EQ(process.Wait(), 0);
}

TEST(ChildProcessTest, TellsTheSignalThatKilledIt) {
  ChildProcess process({"/usr/bin/tail", "-f", "/dev/null"});
  process.Signal(SIGKILL);
  EXPECT_EQ(process.Wait(), -SIGKILL);
}

TEST(ChildProcessTest, AProgramThatIsNotThereEndsWith127) {
  EXPECT_EQ(RunToEnd({"/nowhere"}).exit_code, 127);
}

TEST(WordAfterTest, EndsAtASpaceOrTheEnd) {
  EXPECT_EQ(WordAfter("on ", "listening on a:1 via soft"), "a:1");
  EXPECT_EQ(WordAfter("via ", "listening on a:1 via soft"), "soft");
  EXPECT_EQ(WordAfter("at ", "listening on a:1 via soft"), "");
}

}  // namespace
}  // namespace verbena::testing_support
