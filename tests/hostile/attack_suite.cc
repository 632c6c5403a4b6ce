// attack_suite [--only=NAME,NAME] [--seconds=N] [--patience=N] [--markdown]:
// plays attacks on a server, one after the other, beside a good client, prints
// what came of each, and which attack misses an aim.
//
// Server, attacker and good client are processes of their own. The good client
// is measured three times: while the attacker waits, beside a process that only
// computes, and under attack. Ends with status 1 if an attack made a call of
// the good client fail, or ended the server.

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/hostile/attack.h"
#include "tests/hostile/partner.h"
#include "tools/command_line/parse_flags.h"
#include "transport/base/clock.h"

ABSL_FLAG(std::string, only, "", "names of attacks, with commas between them");
ABSL_FLAG(double, seconds, 5, "how long each attack is measured");
ABSL_FLAG(double, patience, 60,
          "for how many seconds at most the server may get well again");
ABSL_FLAG(bool, markdown, false, "print the table as documents have it");
ABSL_FLAG(std::string, role, "", "what this process is to the others");
ABSL_FLAG(std::string, address, "", "of the server, for the others");
ABSL_FLAG(std::string, secured, "", "where it wants credentials");

namespace verbena::hostile {
namespace {

// The aims. The longest call that does not count as a stop, in milliseconds;
// how many times as long the p99 may be; and memory that may stay, in MiB.
constexpr double kLongest = 1000;
constexpr double kGrowth = 3;
constexpr double kGrowthOfFlood = 20;
constexpr double kMemoryLeft = 1;

// Seconds between two looks at a server that gets well again.
constexpr double kLook = 0.5;

// Resident memory of a process that is no file's, in MiB.
double Resident(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(file, line);) {
    absl::string_view rest = line;
    double kib = 0;
    if (absl::ConsumePrefix(&rest, "RssAnon:") &&
        absl::SimpleAtod(absl::StripSuffix(rest, " kB"), &kib)) {
      return kib / 1024;
    }
  }
  return 0;
}

// The effects of an attack on the good client and on the server.
struct Result {
  Feeling quiet;     // Before the attack.
  Feeling beside;    // Beside a process that computes, before the attack.
  Feeling attacked;  // During the attack.
  int64_t failures = 0;
  std::string failure;
  double memory_before = 0;
  double memory_during = 0;
  double memory_after = 0;  // When the server is well again, or later.
  // If memory stayed in use: the growth when the attack is played again.
  double memory_again = 0;
  // The longest time, in milliseconds, until the server ended a connection; -1
  // if it ended no connection.
  std::string kept;
  // Seconds until the server was well again, or nothing if it never was.
  std::optional<double> well;
  std::string got;

  double Growth() const { return attacked.p99 / quiet.p99; }
  double Left() const { return memory_after - memory_before; }
};

class Suite {
 public:
  Suite(double seconds, absl::Duration patience, bool markdown)
      : seconds_(seconds),
        patience_(patience),
        markdown_(markdown),
        server_(kServerRole, {}, 0) {
    const std::vector<std::string> at = absl::StrSplit(server_.Hear("at"), ' ');
    target_ = {at.front(), at.back()};
  }

  void PrintHead() const;
  void Play(const Attack& attack) {
    const Result result = Watch(attack);
    Judge(attack, result);
    Print(attack, result);
  }
  // Prints which attacks have missed which aim. Returns whether the good client
  // was served.
  bool PrintSummary() const;

 private:
  Result Watch(const Attack& attack);
  // Waits until the server is well again.
  void Recover(Partner& good_client, Result& result);
  // Plays the attack once more, to see whether it takes memory anew.
  void PlayAgain(const Attack& attack, Result& result);
  void Judge(const Attack& attack, const Result& result);
  void Print(const Attack& attack, const Result& result) const;
  double Memory() { return Resident(server_.process().pid()); }

  const double seconds_;
  const absl::Duration patience_;
  const bool markdown_;
  Partner server_;
  Target target_;
  int played_ = 0;
  // Those that missed an aim, with by how much.
  std::vector<std::string> failed_;
  std::vector<std::string> stopped_;
  std::vector<std::string> slowed_;
  std::vector<std::string> kept_memory_;
};

Result Suite::Watch(const Attack& attack) {
  Result result;
  Partner good_client(kGoodClientRole, target_, 0);
  // The attacker's process waits until "go". So while it is quiet, the machine
  // has the same processes as during the attack.
  Partner attacker(std::string(attack.name), target_, seconds_);
  // The first calls of a channel and of a process are slow, so the results of
  // this measurement are dropped.
  Measure(good_client, std::min(seconds_, 0.3));
  result.quiet = Measure(good_client, seconds_);
  {
    Partner neighbour(kNeighbourRole, target_, 0);
    neighbour.Hear("computes");
    result.beside = Measure(good_client, seconds_);
  }
  result.memory_before = Memory();
  attacker.Tell("go");
  if (attack.stopped) {
    Measure(good_client, seconds_ / 2);
    attacker.process().Stop();
  }
  result.attacked = Measure(good_client, seconds_);
  result.memory_during = Memory();
  if (attack.stopped) attacker.process().Signal(SIGCONT);
  const std::vector<std::string> words =
      absl::StrSplit(attacker.Hear("got"), absl::MaxSplits(' ', 1));
  result.kept = words.front();
  result.got = words.back();
  attacker.process().Kill();
  Recover(good_client, result);
  if (result.Left() > kMemoryLeft && patience_ > absl::ZeroDuration()) {
    PlayAgain(attack, result);
  }
  return result;
}

void Suite::PlayAgain(const Attack& attack, Result& result) {
  Partner attacker(std::string(attack.name), target_, seconds_);
  attacker.Tell("go");
  attacker.Hear("got");
  attacker.process().Kill();
  const absl::Time end = base::Now() + patience_;
  Partner good_client(kGoodClientRole, target_, 0);
  do {
    result.failures += Measure(good_client, kLook).failures;
    result.memory_again = Memory() - result.memory_after;
  } while (result.memory_again > kMemoryLeft && base::Now() < end);
}

void Suite::Recover(Partner& good_client, Result& result) {
  const double p99 = 2 * std::max(result.quiet.p99, result.beside.p99);
  const absl::Time start = base::Now();
  result.failures = result.attacked.failures;
  result.failure = result.attacked.failure;
  do {
    const Feeling feeling = Measure(good_client, std::min(seconds_, kLook));
    result.failures += feeling.failures;
    if (result.failure.empty()) result.failure = feeling.failure;
    result.memory_after = Memory();
    if (feeling.p99 <= p99 && result.Left() <= kMemoryLeft) {
      result.well = absl::ToDoubleSeconds(base::Now() - start);
    }
  } while (!result.well.has_value() && result.failures == 0 &&
           base::Now() - start < patience_);
}

void Suite::Judge(const Attack& attack, const Result& result) {
  ++played_;
  const std::string name(attack.name);
  if (result.failures > 0) failed_.push_back(name);
  if (result.attacked.longest > kLongest) {
    stopped_.push_back(
        absl::StrFormat("%s (%.0f ms)", name, result.attacked.longest));
  }
  if (result.Growth() > (attack.flood ? kGrowthOfFlood : kGrowth)) {
    slowed_.push_back(absl::StrFormat("%s (%.0f)", name, result.Growth()));
  }
  if (result.Left() > kMemoryLeft) {
    kept_memory_.push_back(absl::StrFormat("%s (%+.1f, again %+.1f)", name,
                                           result.Left(), result.memory_again));
  }
}

void Suite::PrintHead() const {
  if (markdown_) {
    std::printf(
        "| attack | what it got | for how long | calls a second of the good "
        "client, in thousands | its p99, us | longest, ms | failed | memory, "
        "MiB |\n|---|---|---|---|---|---|---|---|\n");
  } else {
    std::printf("%-16s %26s %23s %7s %6s %8s %5s %15s  %s\n%-16s", "",
                "calls/s of a good client", "its p99, us", "longest", "",
                "kept", "well", "server, MiB", "", "attack");
    std::printf(" %8s %8s %8s %7s %7s %7s %7s %6s %8s %5s %7s %7s  %s\n",
                "quiet", "beside", "attacked", "quiet", "beside", "then", "ms",
                "failed", "ms", "s", "during", "after", "got");
  }
}

void Suite::Print(const Attack& attack, const Result& result) const {
  const std::string well =
      result.well.has_value() ? absl::StrFormat("%.1f", *result.well) : "-";
  const double during = result.memory_during - result.memory_before;
  const std::string again =
      result.Left() > kMemoryLeft
          ? absl::StrFormat(", again %+.1f", result.memory_again)
          : "";
  const std::string name(attack.name);
  if (markdown_) {
    const std::string kept = result.kept == "-1" ? "-" : result.kept + " ms";
    std::printf(
        "| `%s`%s: %s | %s | %s, %s s | %.1f, %.1f, %.1f | %.1f, %.1f, %.1f | "
        "%.1f | %d | %+.1f, %+.1f%s |\n",
        name.c_str(), attack.flood ? " (f)" : "",
        std::string(attack.text).c_str(),
        result.got.substr(0, result.got.find(':')).c_str(), kept.c_str(),
        well.c_str(), result.quiet.rate / 1000, result.beside.rate / 1000,
        result.attacked.rate / 1000, result.quiet.p99, result.beside.p99,
        result.attacked.p99, result.attacked.longest,
        static_cast<int>(result.failures), during, result.Left(),
        again.c_str());
  } else {
    std::printf(
        "%-16s %8.0f %8.0f %8.0f %7.1f %7.1f %7.1f %7.1f %6d %8s %5s %+7.1f "
        "%+7.1f  %s\n",
        name.c_str(), result.quiet.rate, result.beside.rate,
        result.attacked.rate, result.quiet.p99, result.beside.p99,
        result.attacked.p99, result.attacked.longest,
        static_cast<int>(result.failures), result.kept.c_str(), well.c_str(),
        during, result.Left(), result.got.c_str());
  }
  if (!result.failure.empty()) std::printf("  %s\n", result.failure.c_str());
  std::fflush(stdout);
}

void PrintAim(const std::string& aim, const std::vector<std::string>& missed) {
  std::printf("%s: %s\n", aim.c_str(),
              missed.empty() ? "met by all"
                             : absl::StrCat("missed by ", missed.size(), ": ",
                                            absl::StrJoin(missed, ", "))
                                   .c_str());
}

bool Suite::PrintSummary() const {
  std::printf("\n%d attacks. The aims:\n", played_);
  PrintAim("no call of the good client fails", failed_);
  PrintAim(absl::StrFormat("no call takes longer than %.0f ms", kLongest),
           stopped_);
  PrintAim(absl::StrFormat("its p99 grows to %.0f times at most, to %.0f in a "
                           "flood",
                           kGrowth, kGrowthOfFlood),
           slowed_);
  PrintAim(absl::StrFormat("no more than %.0f MiB stay after %s", kMemoryLeft,
                           absl::FormatDuration(patience_)),
           kept_memory_);
  return failed_.empty();
}

// Attackers, and the server, hold many connections.
void AllowAllDescriptors() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int PlayAll(double seconds) {
  const std::vector<std::string> only =
      absl::StrSplit(absl::GetFlag(FLAGS_only), ',', absl::SkipEmpty());
  Suite suite(seconds, absl::Seconds(absl::GetFlag(FLAGS_patience)),
              absl::GetFlag(FLAGS_markdown));
  suite.PrintHead();
  for (const Attack& attack : AllAttacks()) {
    if (only.empty() ||
        std::find(only.begin(), only.end(), attack.name) != only.end()) {
      suite.Play(attack);
    }
  }
  return suite.PrintSummary() ? 0 : 1;
}

int Main(int argc, char** argv) {
  tool::ReadCommandLine(argc, argv,
                        {.name = "attack_suite",
                         .about = " plays attacks on a server beside a good "
                                  "client\n"});
  AllowAllDescriptors();
  std::signal(SIGPIPE, SIG_IGN);
  const std::string role = absl::GetFlag(FLAGS_role);
  const Target target = {absl::GetFlag(FLAGS_address),
                         absl::GetFlag(FLAGS_secured)};
  const double seconds = absl::GetFlag(FLAGS_seconds);
  if (role.empty()) return PlayAll(seconds);
  if (role == kServerRole) return BeServer();
  if (role == kGoodClientRole) return BeGoodClient(target);
  if (role == kNeighbourRole) return BeNeighbour();
  // The attack ends after the measurement.
  return RunAttack(role, target, absl::Seconds(seconds * 3 / 2));
}

}  // namespace
}  // namespace verbena::hostile

int main(int argc, char** argv) { return verbena::hostile::Main(argc, argv); }
