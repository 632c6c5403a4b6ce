// Runs a server and clients for a given time under a load of all kinds of
// calls. Channels come and go, and clients are killed. The figures of the
// processes must not grow in the second half of the time.
//
//   soak_test                           runs for some seconds
//   soak_test --minutes=60 --csv=FILE   runs for an hour, writes the samples
//
// ./dev soak draws a chart of the samples.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/endurance/figures.h"
#include "tests/endurance/peer.h"
#include "tests/testing/child_process.h"
#include "tools/command_line/parse_flags.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"

ABSL_FLAG(double, minutes, 0.2, "how long it lasts");
ABSL_FLAG(uint64_t, seed, 1, "draws the calls, and who is killed when");
ABSL_FLAG(std::string, csv, "", "a file for the samples");

namespace verbena::endurance {
namespace {

// Number of samples: few enough to look at, many enough for medians. The bounds
// of the interval between samples may make it more or fewer.
constexpr double kSamples = 60;
constexpr absl::Duration kShortestInterval = absl::Milliseconds(200);
constexpr absl::Duration kLongestInterval = absl::Seconds(5);

// Clients that are killed, beside one that lives; after so many samples, more
// or less.
constexpr size_t kMortals = 2;
constexpr uint64_t kLifeSamples = 4;

// Time after its deadline in which a call must end. See kill_test.cc.
constexpr absl::Duration kOverrunMax = absl::Seconds(5);

// A figure has grown if its median in the last quarter of the time exceeds that
// in the third by more than a twentieth and `noise`. It varies by about `noise`
// with the calls that happen to be under way.
struct Column {
  const char* process;
  const char* figure;
  int64_t noise;
  std::string name() const { return absl::StrCat(process, "_", figure); }
};
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kAny = INT64_MAX;
constexpr Column kColumns[] = {
    {"server", "resident", 8 * kMiB}, {"server", "heap", 8 * kMiB},
    {"server", "pinned", 16 * kMiB},  {"server", "frames", 2 * kMiB},
    {"server", "bulk", 32 * kMiB},    {"server", "descriptors", 6},
    {"server", "threads", 6},         {"server", "connections", 4},
    {"client", "resident", 8 * kMiB}, {"client", "heap", 8 * kMiB},
    {"client", "pinned", 16 * kMiB},  {"client", "mapped", 256 * kMiB},
    {"client", "descriptors", 6},     {"client", "threads", 6},
    {"client", "overrun_us", kAny},   {"client", "OK", kAny}};

// In shorter runs `noise` counts several times. The processes have not come to
// their full size, and few samples vary more.
constexpr absl::Duration kLongEnough = absl::Minutes(2);
constexpr int64_t kMoreNoise = 4;

int64_t Median(std::vector<int64_t> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Returns the median of one quarter of the values; `quarter` is 0 to 3.
int64_t MedianOfQuarter(const std::vector<int64_t>& values, size_t quarter) {
  const auto begin = values.begin();
  const auto size = static_cast<int64_t>(values.size());
  const auto from = static_cast<int64_t>(quarter);
  return Median({begin + size * from / 4, begin + size * (from + 1) / 4});
}

class SoakTest : public testing::Test {
 protected:
  std::unique_ptr<Peer> Start(const std::string& target) {
    std::unique_ptr<Peer> client = Peer::StartClient(target);
    client->StartLoad(random_());
    return client;
  }

  static void LetPassUntil(absl::Time time) {
    base::Mutex mutex;
    base::CondVar never;
    const base::MutexLock lock(mutex);
    while (base::Now() < time) never.WaitUntil(mutex, time);
  }

  void WriteHeader() {
    csv_ << "seconds";
    for (const Column& column : kColumns) csv_ << "," << column.name();
    csv_ << std::endl;
  }

  void Sample(absl::Duration elapsed, Figures server, Figures client) {
    csv_ << absl::ToDoubleSeconds(elapsed);
    for (size_t i = 0; i < samples_.size(); ++i) {
      const Column& column = kColumns[i];
      Figures& figures =
          absl::string_view(column.process) == "server" ? server : client;
      samples_[i].push_back(figures[column.figure]);
      csv_ << "," << samples_[i].back();
    }
    csv_ << std::endl;  // Flushed, for whoever looks on.
    EXPECT_LE(absl::Microseconds(client["overrun_us"]), kOverrunMax);
  }

  void Judge() {
    std::printf("%zu samples, %d clients killed; medians of quarters:\n",
                samples_[0].size(), killed_);
    std::printf("%-20s %14s %14s %14s %14s\n", "", "first", "second", "third",
                "last");
    for (size_t i = 0; i < samples_.size(); ++i) {
      int64_t quarters[4];
      for (size_t j = 0; j < 4; ++j) {
        quarters[j] = MedianOfQuarter(samples_[i], j);
      }
      std::printf("%-20s %14ld %14ld %14ld %14ld\n", kColumns[i].name().c_str(),
                  quarters[0], quarters[1], quarters[2], quarters[3]);
      if (kColumns[i].noise == kAny) continue;
      const int64_t noise =
          kColumns[i].noise * (time_ < kLongEnough ? kMoreNoise : 1);
      EXPECT_LE(quarters[3], quarters[2] + quarters[2] / 20 + noise)
          << kColumns[i].name() << " grew from " << quarters[2] << " to "
          << quarters[3] << " in the last half";
    }
  }

  const absl::Duration time_ = absl::Minutes(absl::GetFlag(FLAGS_minutes));
  const absl::Duration interval_ =
      std::clamp(time_ / kSamples, kShortestInterval, kLongestInterval);
  const uint64_t seed_ = absl::GetFlag(FLAGS_seed);
  std::mt19937_64 random_{seed_};
  std::ofstream csv_{absl::GetFlag(FLAGS_csv)};  // Drops all without a name.
  // Samples of each column.
  std::vector<std::vector<int64_t>> samples_ =
      std::vector<std::vector<int64_t>>(std::size(kColumns));
  int killed_ = 0;
};

TEST_F(SoakTest, NothingGrows) {
  ASSERT_GT(time_, absl::ZeroDuration());
  std::string problem;
  const std::unique_ptr<Peer> server = Peer::StartServer(
      absl::StrCat(testing_support::TestAddress(), ":0"), &problem);
  ASSERT_NE(server, nullptr) << problem;
  std::printf("%s, on %s; to repeat it: --minutes=%g --seed=%s\n",
              absl::FormatDuration(time_).c_str(), server->device().c_str(),
              absl::ToDoubleMinutes(time_), absl::StrCat(seed_).c_str());
  const std::unique_ptr<Peer> client = Start(server->address());
  std::vector<std::unique_ptr<Peer>> mortals(kMortals);
  WriteHeader();
  const absl::Time begin = base::Now();
  absl::Duration elapsed;
  while (elapsed < time_ && !HasFailure()) {
    std::unique_ptr<Peer>& mortal = mortals[random_() % kMortals];
    if (random_() % kLifeSamples < kMortals) {
      if (mortal != nullptr) mortal->Kill();
      mortal = Start(server->address());
      ++killed_;
    }
    LetPassUntil(begin + elapsed + interval_);
    elapsed = base::Now() - begin;
    Sample(elapsed, server->Report(), client->Report());
  }
  client->AwaitSuccess();
  client->StopLoad();
  client->End();
  server->End();
  if (!HasFailure()) Judge();
}

}  // namespace
}  // namespace verbena::endurance

int main(int argc, char** argv) {
  int exit_code = 0;
  if (verbena::endurance::BePeer(argc, argv, &exit_code)) return exit_code;
  testing::InitGoogleTest(&argc, argv);
  verbena::tool::ReadCommandLine(
      argc, argv,
      {.name = "soak_test",
       .about = " looks whether anything grows under load\n"});
  return RUN_ALL_TESTS();
}
