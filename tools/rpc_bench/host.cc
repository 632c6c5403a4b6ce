#include "tools/rpc_bench/host.h"

#include <sched.h>

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace verbena::bench {
namespace {

namespace fs = std::filesystem;

// Adds the counters in `directory`, a file each, if it can be read.
void AddFrom(const fs::path& directory, Counters& counters) {
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(directory, error)) {
    int64_t value = 0;
    if (std::ifstream(entry.path()) >> value) {
      counters[entry.path().filename()] += value;
    }
  }
  // Not a counter, but how often they are read.
  counters.erase("lifespan");
}

}  // namespace

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

Counters HardwareCounters(const std::string& device,
                          const std::string& devices) {
  Counters counters;
  std::error_code error;
  for (const fs::directory_entry& port :
       fs::directory_iterator(fs::path(devices) / device / "ports", error)) {
    AddFrom(port.path() / "hw_counters", counters);
  }
  return counters;
}

Counters CounterGrowth(const Counters& before, const Counters& after) {
  Counters growth;
  for (const auto& [name, value] : after) {
    const auto found = before.find(name);
    growth[name] = value - (found == before.end() ? 0 : found->second);
  }
  return growth;
}

}  // namespace verbena::bench
