#include "tools/child/child_process.h"

#include <csignal>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace verbena::tools {
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

TEST(ChildProcessTest, GetsInputUntilThatIsClosed) {
  EXPECT_EQ(RunToEnd({"/bin/cat"}, "there and back").output, "there and back");
  ChildProcess process({"/bin/cat"});
  for (const char* word : {"one", "two"}) {
    EXPECT_TRUE(process.Write(absl::StrCat(word, "\n")));
    EXPECT_EQ(process.ReadLine(), word);
  }
  EXPECT_EQ(process.Wait(), 0);
}

TEST(ChildProcessTest, AProgramThatReadsNoMoreCannotBeToldAnything) {
  ChildProcess process({"/bin/true"});
  // The kernel closes the descriptors of a program one after the other.
  while (process.Write("word")) std::this_thread::yield();
  EXPECT_EQ(process.Wait(), 0);
}

TEST(ChildProcessTest, ASilentProgramIsKilled) {
  ChildProcess process({"/usr/bin/tail", "-f", "/dev/null"});
  EXPECT_EQ(process.ReadLine(absl::Milliseconds(50)), "");
  EXPECT_TRUE(process.timed_out());
  EXPECT_THAT(process.errors(), testing::HasSubstr("printed nothing for 50ms"));
  EXPECT_EQ(process.Wait(), ChildProcess::kTimedOut);
}

TEST(ChildProcessTest, IsKilledByItsDestructor) {
  pid_t pid = 0;
  {
    const ChildProcess process({"/usr/bin/tail", "-f", "/dev/null"});
    pid = process.pid();
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

}  // namespace
}  // namespace verbena::tools
