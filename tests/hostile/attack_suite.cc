// attack_suite [--only=NAME,NAME] [--seconds=N]: plays attacks on a server, one
// after the other, beside a good client, and prints what came of each.
//
// Server, attacker and good client are processes of their own. The server's
// patience is short (stall_timeout 2 s). Ends with status 1 if an attack made a
// call of the good client fail, or ended the server.

#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "rpc/rpc.h"
#include "tests/hostile/attack.h"
#include "tests/integration/test_service.h"
#include "tests/testing/child_process.h"
#include "transport/base/clock.h"

ABSL_FLAG(std::string, only, "", "names of attacks, with commas between them");
ABSL_FLAG(double, seconds, 5, "how long each attack lasts");
ABSL_FLAG(std::string, role, "", "what this process is to the others");
ABSL_FLAG(std::string, address, "", "of the server, for the others");

namespace verbena::hostile {
namespace {

using end_to_end::EchoReply;
using end_to_end::EchoRequest;
using end_to_end::EndToEnd;
using testing_support::ChildProcess;

constexpr char kServer[] = "server";
constexpr char kGoodClient[] = "good client";

std::vector<std::string> Self(const std::string& role,
                              const std::string& address, double seconds) {
  return {"/proc/self/exe", absl::StrCat("--role=", role),
          absl::StrCat("--address=", address),
          absl::StrCat("--seconds=", seconds)};
}

int BeServer() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  end_to_end::EndToEndService service;
  end_to_end::TestStreams streams;
  auto server =
      ServerBuilder()
          .AddListeningPort(absl::StrCat(testing_support::TestAddress(), ":0"))
          .RegisterService(&service)
          .RegisterService(&streams)
          .SetStallTimeout(absl::Seconds(2))
          .BuildAndStart();
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
    return 1;
  }
  std::printf("%s\n", (*server)->listening().front().address.c_str());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  (*server)->Shutdown(base::Now());
  return 0;
}

// Echoes 64 bytes until its time is over. Prints calls, failures, the median
// and the 99th percentile in microseconds, and the first failure.
int BeGoodClient(const std::string& address, absl::Duration duration) {
  const auto stub = EndToEnd::NewStub(CreateChannel(address));
  EchoRequest request;
  request.set_payload(std::string(64, 'g'));
  std::vector<double> times;
  uint64_t failures = 0;
  std::string failure;
  const absl::Time end = base::Now() + duration;
  for (absl::Time now = base::Now(); now < end;) {
    ClientContext context;
    context.set_timeout(absl::Seconds(10));
    EchoReply reply;
    const absl::Status status = stub->Echo(&context, request, &reply);
    const absl::Time then = std::exchange(now, base::Now());
    times.push_back(absl::ToDoubleMicroseconds(now - then));
    if (!status.ok() && failures++ == 0) failure = status.ToString();
  }
  std::sort(times.begin(), times.end());
  std::printf("%zu %d %.1f %.1f %s\n", times.size(), static_cast<int>(failures),
              times[times.size() / 2], times[times.size() * 99 / 100],
              failure.c_str());
  return 0;
}

struct Feeling {
  int64_t calls = 0;
  int64_t failures = 0;
  double median = 0;
  double p99 = 0;
  std::string failure;
};

Feeling ReadFeeling(const std::string& line) {
  const std::vector<std::string> words =
      absl::StrSplit(line, absl::MaxSplits(' ', 4));
  Feeling feeling;
  if (words.size() < 5 || !absl::SimpleAtoi(words[0], &feeling.calls) ||
      !absl::SimpleAtoi(words[1], &feeling.failures) ||
      !absl::SimpleAtod(words[2], &feeling.median) ||
      !absl::SimpleAtod(words[3], &feeling.p99)) {
    feeling.failures = 1;
    feeling.failure = "the good client said nothing";
    return feeling;
  }
  feeling.failure = words[4];
  return feeling;
}

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

class Suite {
 public:
  explicit Suite(double seconds)
      : seconds_(seconds), server_(Self(kServer, "", 0)) {
    address_ = server_.ReadLine();
  }

  // Returns whether the good client was served.
  bool Play(const Attack& attack) {
    const Feeling quiet = Measure();
    const double before = Resident(server_.pid());
    ChildProcess attacker(Self(std::string(attack.name), address_, seconds_));
    if (attack.stopped) {
      Measure();
      attacker.Stop();
    }
    const Feeling feeling = Measure();
    const double during = Resident(server_.pid());
    if (attack.stopped) attacker.Signal(SIGCONT);
    // The device says who it is before.
    std::string got;
    do {
      got = attacker.ReadLine();
    } while (!got.empty() && !absl::StartsWith(got, "got "));
    attacker.Kill();
    const Feeling after = Measure();
    std::printf("%-16s %8.0f %8.0f %7.1f %7.1f %6lld %+7.1f %+7.1f  %s\n",
                std::string(attack.name).c_str(), quiet.calls / seconds_,
                feeling.calls / seconds_, quiet.p99, feeling.p99,
                static_cast<long long>(feeling.failures + after.failures),
                during - before, Resident(server_.pid()) - before,
                got.substr(std::min<size_t>(4, got.size())).c_str());
    if (!feeling.failure.empty())
      std::printf("  %s\n", feeling.failure.c_str());
    std::fflush(stdout);
    return feeling.failures + after.failures == 0;
  }

 private:
  Feeling Measure() {
    ChildProcess client(Self(kGoodClient, address_, seconds_));
    Feeling feeling = ReadFeeling(client.ReadLine());
    client.Wait();
    return feeling;
  }

  const double seconds_;
  ChildProcess server_;
  std::string address_;
};

int Main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const std::string role = absl::GetFlag(FLAGS_role);
  const std::string address = absl::GetFlag(FLAGS_address);
  const double seconds = absl::GetFlag(FLAGS_seconds);
  if (role == kServer) return BeServer();
  if (role == kGoodClient) return BeGoodClient(address, absl::Seconds(seconds));
  // It begins before the measurement and ends after it.
  if (!role.empty()) {
    return RunAttack(role, address, absl::Seconds(seconds * 3 / 2));
  }

  const std::vector<std::string> only =
      absl::StrSplit(absl::GetFlag(FLAGS_only), ',', absl::SkipEmpty());
  Suite suite(seconds);
  std::printf("%-16s %17s %15s %6s %15s\n%-16s %8s %8s %7s %7s %6s %7s %7s\n",
              "", "calls/s of a good", "its p99, us", "", "server, MiB",
              "attack", "quiet", "attacked", "quiet", "then", "failed",
              "during", "after");
  bool good = true;
  for (const Attack& attack : AllAttacks()) {
    if (!only.empty() &&
        std::find(only.begin(), only.end(), attack.name) == only.end()) {
      continue;
    }
    good = suite.Play(attack) && good;
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace verbena::hostile

int main(int argc, char** argv) { return verbena::hostile::Main(argc, argv); }
