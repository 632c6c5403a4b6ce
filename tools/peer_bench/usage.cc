#include "tools/peer_bench/usage.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "absl/status/status.h"
#include "transport/base/check.h"

namespace verbena::peers {
namespace {

int64_t Nanoseconds(const timeval& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + int64_t{time.tv_usec} * 1'000;
}

}  // namespace

Usage OwnUsage() {
  rusage usage = {};
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return {.cpu_ns = Nanoseconds(usage.ru_utime) + Nanoseconds(usage.ru_stime),
          .voluntary = usage.ru_nvcsw,
          .involuntary = usage.ru_nivcsw};
}

absl::StatusOr<Usage> UsageOfPeer(int socket) {
  Usage usage;
  if (send(socket, "?", 1, MSG_NOSIGNAL) != 1 ||
      TEMP_FAILURE_RETRY(recv(socket, &usage, sizeof(usage), MSG_WAITALL)) !=
          static_cast<ssize_t>(sizeof(usage))) {
    return absl::UnavailableError(
        "the server ended during the run; its own message is above");
  }
  return usage;
}

void AnswerQuestions() {
  char question = 0;
  while (TEMP_FAILURE_RETRY(read(STDIN_FILENO, &question, 1)) == 1) {
    const Usage usage = OwnUsage();
    if (send(STDOUT_FILENO, &usage, sizeof(usage), MSG_NOSIGNAL) < 0) return;
  }
}

Usage operator-(const Usage& later, const Usage& earlier) {
  return {.cpu_ns = later.cpu_ns - earlier.cpu_ns,
          .voluntary = later.voluntary - earlier.voluntary,
          .involuntary = later.involuntary - earlier.involuntary};
}

}  // namespace verbena::peers
