// A warm call makes no system call on either side while both poll, and wakes
// each side once and hardly anybody else when they sleep, as strace sees it.
// One argument: the program hot_path_calls.

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace verbena::end_to_end {
namespace {

std::string program;

struct Traced {
  uint64_t system_calls = 0;
  absl::Duration elapsed;
};

std::string Contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Bytes of payload for a frame that is sent inline, and for one that holds a
// send buffer.
constexpr int kSmall = 64;
constexpr int kMedium = 1024;

// Makes `calls` RPCs between a client and a server that work as `mode` says.
// Returns the number of system calls that `traced` names, of all threads on
// both sides.
Traced CountSystemCalls(const std::string& traced, int calls,
                        const std::string& mode, int bytes) {
  const std::string path =
      absl::StrCat(::testing::TempDir(), "/strace.", calls);
  const std::string command =
      absl::StrCat("strace -f -c --seccomp-bpf -e trace=", traced, " -o ", path,
                   " ", program, " ", calls, " ", mode, " ", bytes);
  Traced run;
  const absl::Time start = absl::Now();
  EXPECT_EQ(std::system(command.c_str()), 0)
      << command << "\nfailed; strace must be installed, and allowed to trace";
  run.elapsed = absl::Now() - start;
  // The last line: "100.00    0.071220          12      5905       102 total".
  std::istringstream lines(Contents(path));
  std::string line, total;
  while (std::getline(lines, line)) {
    if (line.size() > 5 && line.substr(line.size() - 5) == "total") {
      total = line;
    }
  }
  double percent = 0, seconds = 0;
  uint64_t per_call = 0;
  std::istringstream fields(total);
  EXPECT_TRUE(fields >> percent >> seconds >> per_call >> run.system_calls)
      << "no total in:\n"
      << Contents(path);
  return run;
}

TEST(SystemCallsTest, AWarmCallMakesNone) {
  // The runs are short, so that other processes seldom interfere. If a side
  // loses its processor in the middle of a call, both sides go to sleep, as
  // they should (SpinPolicy), and under strace they take long to spin again.
  // One quiet run of kRuns is enough: if calls needed system calls, every run
  // would fail.
  constexpr int kFew = 1000;
  constexpr int kMany = 6000;
  constexpr int kRuns = 30;
  std::string seen;
  for (int i = 0; i < kRuns; ++i) {
    const Traced few = CountSystemCalls("all", kFew, "polling", kSmall);
    const Traced many = CountSystemCalls("all", kMany, "polling", kSmall);
    const double more = static_cast<double>(many.system_calls) -
                        static_cast<double>(few.system_calls);
    // A few system calls are made by the clock: the device's thread wakes once
    // a millisecond, and the pollers have their ticks.
    const double elapsed_ms = absl::ToDoubleMilliseconds(many.elapsed);
    if (more < 0.2 * (kMany - kFew) + 5 * elapsed_ms) return;
    absl::StrAppend(&seen, few.system_calls, " system calls in ", kFew,
                    " calls, ", many.system_calls, " in ", kMany, ", in ",
                    absl::FormatDuration(many.elapsed), "\n");
  }
  FAIL() << seen;
}

// Work that is done by the clock becomes rare when both sides have polled for a
// while: a poller looks at its descriptors, and the device's thread at the
// queue pairs, once in 20 ms.
TEST(SystemCallsTest, AMillisecondOfCallsInARowHardlyMakesOne) {
  constexpr int kFew = 200'000;  // They take longer than the while.
  constexpr int kMany = 600'000;
  constexpr int kRuns = 15;  // As above.
  std::string seen;
  for (int i = 0; i < kRuns; ++i) {
    const Traced few = CountSystemCalls("all", kFew, "polling", kSmall);
    const Traced many = CountSystemCalls("all", kMany, "polling", kSmall);
    const double more = static_cast<double>(many.system_calls) -
                        static_cast<double>(few.system_calls);
    const double more_ms =
        absl::ToDoubleMilliseconds(many.elapsed - few.elapsed);
    if (more_ms > 0 && more < 0.4 * more_ms) return;
    absl::StrAppend(&seen, more, " system calls more in ", more_ms, " ms\n");
  }
  FAIL() << seen;
}

// How often a poller was woken in so many calls between sides that sleep. Eight
// events at once is what a Poller asks for; the software device's own thread,
// which is not counted, asks for more.
int CountWakeUps(int calls, int bytes) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/wakes");
  const std::string command =
      absl::StrCat("strace -f --seccomp-bpf -e trace=epoll_wait -o ", path, " ",
                   program, " ", calls, " sleeping ", bytes);
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  const std::regex woken(R"(, 8, -?[1-9][0-9]*\) += [1-9])");
  std::istringstream lines(Contents(path));
  int wakes = 0;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, woken)) ++wakes;
  }
  return wakes;
}

TEST(SystemCallsTest, ACallBetweenSleepersWakesEachSideOnce) {
  constexpr int kFew = 100;
  constexpr int kMany = 2100;
  for (const int bytes : {kSmall, kMedium}) {
    const int more = CountWakeUps(kMany, bytes) - CountWakeUps(kFew, bytes);
    RecordProperty(absl::StrCat("wake_ups_of_", bytes, "_bytes"), more);
    EXPECT_GT(more, (kMany - kFew) / 2) << "nobody slept";
    // Each side also wakes for one SEND in sixteen, which is signalled.
    EXPECT_LE(more, 2.2 * (kMany - kFew)) << bytes << " bytes";
  }
}

// The software device's own thread reads its sockets with recvmsg(), twice for
// each doorbell, of which there would be one a direction if it stood between
// the two sides. It answers for the one SEND in sixteen that is signalled, and
// where a bell is full, as it may be on a busy machine.
TEST(SystemCallsTest, ACallBetweenSleepersSeldomWakesTheDevicesThread) {
  constexpr int kFew = 100;
  constexpr int kMany = 2100;
  for (const int bytes : {kSmall, kMedium}) {
    const uint64_t few =
        CountSystemCalls("recvmsg", kFew, "sleeping", bytes).system_calls;
    const uint64_t many =
        CountSystemCalls("recvmsg", kMany, "sleeping", bytes).system_calls;
    const double a_call = static_cast<double>(many - few) / (kMany - kFew);
    RecordProperty(absl::StrCat("recvmsg_a_call_of_", bytes, "_bytes"),
                   absl::StrCat(a_call));
    EXPECT_LT(a_call, 2) << bytes << " bytes: " << few << " in " << kFew
                         << " calls, " << many << " in " << kMany;
  }
}

}  // namespace
}  // namespace verbena::end_to_end

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc != 2) return 2;
  verbena::end_to_end::program = argv[1];
  return RUN_ALL_TESTS();
}
