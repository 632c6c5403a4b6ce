#include "tests/simulation/seed_tests.h"

#include <gtest/gtest.h>
#include <sys/personality.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/testing/seed_range.h"

namespace verbena::simulation {
namespace {

using testing_support::SeedRange;

bool runs_one_seed = false;

// Real time: the world's own stands still between two steps.
absl::Time ProcessorTime() {
  timespec now = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return absl::TimeFromTimespec(now);
}

std::string RunSeed(const SeedTests& tests, uint64_t seed) {
  std::string trace = tests.run(seed);
  if (testing::Test::HasFailure()) {
    std::printf("to repeat it: --seed=%s\n", absl::StrCat(seed).c_str());
  }
  return trace;
}

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n');
}

class SimulationTest : public testing::Test {
 public:
  SimulationTest(const SeedTests& tests, const SeedRange& range)
      : tests_(tests), range_(range) {}

  void TestBody() override {
    const absl::Time start = ProcessorTime();
    uint64_t seed = range_.first;
    size_t hash = 0;
    for (; seed - range_.first < range_.count &&
           ProcessorTime() - start < range_.longest;
         ++seed) {
      const std::string trace = RunSeed(tests_, seed);
      if (range_.count == 1) std::printf("%s", trace.c_str());
      hash = std::hash<std::string>()(absl::StrCat(hash, trace));
      if (HasFailure()) return;
    }
    // The hash is the same in each run of the same seeds.
    std::printf("%s\n",
                absl::StrCat(seed - range_.first, " seeds from ", range_.first,
                             " on, whose traces hash to ", absl::Hex(hash))
                    .c_str());
    if (range_.count > 1 && tests_.check_all) tests_.check_all();
  }

 private:
  const SeedTests tests_;
  const SeedRange range_;
};

class SameSeedTest : public testing::Test {
 public:
  explicit SameSeedTest(const SeedTests& tests) : tests_(tests) {}

  void TestBody() override {
    for (uint64_t seed = 1; seed <= tests_.repeated; ++seed) {
      const std::vector<std::string> first = Lines(RunSeed(tests_, seed));
      const std::vector<std::string> second = Lines(RunSeed(tests_, seed));
      // Only the first that differ: a trace is long.
      const auto [one, other] = std::mismatch(first.begin(), first.end(),
                                              second.begin(), second.end());
      EXPECT_TRUE(one == first.end() && other == second.end())
          << "seed " << seed << ": \"" << (one == first.end() ? "" : *one)
          << "\" became \"" << (other == second.end() ? "" : *other) << "\"";
      if (HasFailure()) return;
    }
  }

 private:
  const SeedTests tests_;
};

void Register(const SeedTests& tests, const SeedRange& range) {
  testing::RegisterTest("SimulationTest", "EachCallEndsOnceAndInTime", nullptr,
                        nullptr, __FILE__, __LINE__,
                        [tests, range]() -> testing::Test* {
                          return new SimulationTest(tests, range);
                        });
  if (range.count == 1) return;
  testing::RegisterTest(
      "SimulationTest", "ASeedRunsTheSameTwice", nullptr, nullptr, __FILE__,
      __LINE__,
      [tests]() -> testing::Test* { return new SameSeedTest(tests); });
}

}  // namespace

bool RunsOneSeed() { return runs_one_seed; }

int RunSeedTests(int argc, char** argv, const SeedTests& tests) {
  // Containers that are ordered by address must have the same order in each
  // run of the program.
  if ((personality(0xffffffff) & ADDR_NO_RANDOMIZE) == 0 &&
      personality(ADDR_NO_RANDOMIZE) != -1) {
    execv("/proc/self/exe", argv);
  }
  testing::InitGoogleTest(&argc, argv);
  SeedRange range = testing_support::ParseSeedRange(argc, argv);
  if (range.longest < absl::InfiniteDuration()) range.longest = tests.longest;
  runs_one_seed = range.count == 1;
  Register(tests, range);
  return RUN_ALL_TESTS();
}

}  // namespace verbena::simulation
