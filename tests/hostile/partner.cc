#include "tests/hostile/partner.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rpc/credentials/shared_secret.h"
#include "rpc/rpc.h"
#include "rpc/services/health_service.h"
#include "rpc/services/reflection_service.h"
#include "tests/integration/test_service.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"

namespace verbena::hostile {
namespace {

using end_to_end::EchoReply;
using end_to_end::EchoRequest;
using end_to_end::EndToEnd;

// Far longer than a call takes that the server has not forgotten.
constexpr absl::Duration kCallTimeout = absl::Seconds(10);

// The times of calls.
class Times {
 public:
  // Makes a call and records its time. If the client is new, the time includes
  // connecting, so it only counts for the longest time.
  void Call(EndToEnd::Stub& stub, bool of_new_client) {
    ClientContext context;
    context.set_timeout(kCallTimeout);
    EchoRequest request;
    request.set_payload(std::string(64, 'g'));
    EchoReply reply;
    const absl::Time start = base::Now();
    const absl::Status status = stub.Echo(&context, request, &reply);
    const double us = absl::ToDoubleMicroseconds(base::Now() - start);
    if (!status.ok() && failures_++ == 0) failure_ = status.ToString();
    longest_ = std::max(longest_, us);
    if (!of_new_client) times_.push_back(us);
  }

  void Print(double seconds) {
    std::sort(times_.begin(), times_.end());
    std::printf("felt %zu %d %.0f %.2f %.2f %s\n", times_.size(), failures_,
                static_cast<double>(times_.size()) / seconds,
                times_[times_.size() * 99 / 100], longest_ / 1000,
                failure_.c_str());
    std::fflush(stdout);
  }

 private:
  std::vector<double> times_;
  double longest_ = 0;
  int failures_ = 0;
  std::string failure_;
};

}  // namespace

Partner::Partner(const std::string& role, const Target& target, double seconds)
    : process_({"/proc/self/exe", absl::StrCat("--role=", role),
                absl::StrCat("--address=", target.open),
                absl::StrCat("--secured=", target.secured),
                absl::StrCat("--seconds=", seconds)}) {}

void Partner::Tell(const std::string& line) {
  // A failure needs no report: if the process has ended, Hear() returns "".
  process_.Write(line + "\n");
}

std::string Partner::Hear(const std::string& word) {
  while (true) {
    const std::string line = process_.ReadLine();
    if (line.empty()) return "";
    if (absl::StartsWith(line, word + " ")) return line.substr(word.size() + 1);
  }
}

int BeServer() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  end_to_end::EndToEndService service;
  end_to_end::TestStreams streams;
  HealthService health;
  ReflectionService reflection;
  auto keys = std::make_shared<SharedSecretKeys>();
  CHECK(keys->Replace({{kKeyName, "what no attacker guesses"}}).ok());
  const std::string any = absl::StrCat(testing_support::TestAddress(), ":0");
  auto server = ServerBuilder()
                    .AddListeningPort(any)
                    .AddListeningPort(any, SharedSecretServerCredentials(keys))
                    .RegisterService(&service)
                    .RegisterService(&streams)
                    .RegisterService(&health)
                    .RegisterService(&reflection)
                    .SetStallTimeout(absl::Seconds(2))
                    .BuildAndStart();
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
    return 1;
  }
  const auto& listening = (*server)->listening();
  std::printf("at %s %s\n", listening[0].address.c_str(),
              listening[1].address.c_str());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  (*server)->Shutdown(base::Now());
  return 0;
}

int BeNeighbour() {
  std::printf("computes now\n");
  std::fflush(stdout);
  std::atomic<uint64_t> sum = 0;
  while (true) ++sum;
}

int BeGoodClient(const Target& target) {
  const auto old = EndToEnd::NewStub(CreateChannel(target.open));
  for (std::string line; std::getline(std::cin, line);) {
    double seconds = 0;
    CHECK(absl::SimpleAtod(line, &seconds));
    Times times;
    const absl::Time end = base::Now() + absl::Seconds(seconds);
    // Tests that new clients can still connect.
    times.Call(*EndToEnd::NewStub(CreateChannel(target.open)), true);
    do {
      times.Call(*old, false);
    } while (base::Now() < end);
    times.Print(seconds);
  }
  return 0;
}

Feeling Measure(Partner& good_client, double seconds) {
  good_client.Tell(absl::StrCat(seconds));
  const std::vector<std::string> words =
      absl::StrSplit(good_client.Hear("felt"), absl::MaxSplits(' ', 5));
  Feeling feeling;
  if (words.size() < 6 || !absl::SimpleAtoi(words[0], &feeling.calls) ||
      !absl::SimpleAtoi(words[1], &feeling.failures) ||
      !absl::SimpleAtod(words[2], &feeling.rate) ||
      !absl::SimpleAtod(words[3], &feeling.p99) ||
      !absl::SimpleAtod(words[4], &feeling.longest)) {
    feeling.failures = 1;
    feeling.failure = "the good client said nothing";
    return feeling;
  }
  feeling.failure = words[5];
  return feeling;
}

}  // namespace verbena::hostile
