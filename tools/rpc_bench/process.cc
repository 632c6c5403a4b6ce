#include "tools/rpc_bench/process.h"

#include <sched.h>

#include <cerrno>
#include <ctime>
#include <vector>

#include "absl/strings/str_cat.h"

namespace verbena::bench {

absl::Duration CpuUsed() {
  timespec used = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return absl::DurationFromTimespec(used);
}

absl::StatusOr<absl::Duration> CpuUsedBy(pid_t process) {
  clockid_t clock;
  timespec used = {};
  if (const int error = clock_getcpuclockid(process, &clock); error != 0) {
    return absl::ErrnoToStatus(error, "clock_getcpuclockid");
  }
  if (clock_gettime(clock, &used) != 0) {
    return absl::ErrnoToStatus(errno, "clock_gettime");
  }
  return absl::DurationFromTimespec(used);
}

std::vector<int> AllowedProcessors() {
  std::vector<int> processors;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed)) processors.push_back(i);
  }
  return processors;
}

absl::Status PinTo(int processor) {
  cpu_set_t only;
  CPU_ZERO(&only);
  if (processor >= 0 && processor < CPU_SETSIZE) CPU_SET(processor, &only);
  if (sched_setaffinity(0, sizeof(only), &only) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno,
                             absl::StrCat("pinning to processor ", processor));
}

}  // namespace verbena::bench
