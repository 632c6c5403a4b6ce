#include "tools/peer_bench/usage.h"

#include <sys/resource.h>
#include <sys/time.h>

#include <cstdint>
#include <iostream>
#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "transport/base/check.h"

namespace verbena::peers {
namespace {

int64_t Nanoseconds(const timeval& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + int64_t{time.tv_usec} * 1'000;
}

}  // namespace

// Counts all threads of the process.
Usage OwnUsage() {
  rusage usage = {};
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return {.cpu_ns = Nanoseconds(usage.ru_utime) + Nanoseconds(usage.ru_stime),
          .voluntary = usage.ru_nvcsw,
          .involuntary = usage.ru_nivcsw};
}

// Asks the server itself, because getrusage() tells of no other process that
// still runs.
absl::StatusOr<Usage> UsageOf(tools::ChildProcess& process) {
  Usage usage;
  // Any line is a question for AnswerQuestions(), which the server runs.
  process.Write("?\n");
  std::istringstream answer(process.ReadLine());
  if (answer >> usage.cpu_ns >> usage.voluntary >> usage.involuntary) {
    return usage;
  }
  return absl::UnavailableError(
      "the server ended during the run; its own message is above");
}

void AnswerQuestions() {
  // Ends with the input, which the client closes when it is done or dies.
  for (std::string question; std::getline(std::cin, question);) {
    const Usage usage = OwnUsage();
    std::cout << usage.cpu_ns << ' ' << usage.voluntary << ' '
              << usage.involuntary << std::endl;
  }
}

Usage operator-(const Usage& later, const Usage& earlier) {
  return {.cpu_ns = later.cpu_ns - earlier.cpu_ns,
          .voluntary = later.voluntary - earlier.voluntary,
          .involuntary = later.involuntary - earlier.involuntary};
}

}  // namespace verbena::peers
