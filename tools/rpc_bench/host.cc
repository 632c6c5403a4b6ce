#include "tools/rpc_bench/host.h"

#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/rpc_bench/verbs_count.h"
#include "transport/base/socket_address.h"
#include "transport/device.h"

namespace verbena::bench {
namespace {

using base::SocketAddress;
namespace fs = std::filesystem;

}  // namespace

// The clock of a process counts all its threads, also those that have ended.
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

absl::Duration CpuUsed() { return CpuUsedBy(getpid()).value(); }

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
  // A number out of range leaves the set empty, which the kernel refuses.
  if (processor >= 0 && processor < CPU_SETSIZE) CPU_SET(processor, &only);
  if (sched_setaffinity(0, sizeof(only), &only) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno,
                             absl::StrCat("pinning to processor ", processor));
}

// Takes the first device that fits, in the order of providers and of names.
// Names of the others are kept for the error.
absl::StatusOr<LocalDevice> ChooseLocalDevice(absl::string_view wanted) {
  std::string names;
  for (const transport::Provider* provider :
       transport::ListenProviders(wanted)) {
    // The software device must not be used yet. It starts a thread, which shall
    // run on the processor to which this thread will be pinned.
    if (provider->name == transport::kSoftDevice) {
      return LocalDevice{std::string(transport::kSoftDevice),
                         SocketAddress::Loopback(AF_INET, 0).ToString()};
    }
    for (const auto& [name, device] : LocalDevices(*provider)) {
      if (wanted.empty() || wanted == name) return device;
      absl::StrAppend(&names, name, ", ");
    }
  }
  return absl::NotFoundError(absl::StrCat(
      "no device \"", wanted,
      "\" on this host that has an address; there are: ", names,
      transport::kSoftDevice, "; see `rdma link` and `ip address`"));
}

void CountVerbsOfDevices(absl::string_view wanted) {
  for (const transport::Provider* provider :
       transport::ListenProviders(wanted)) {
    for (const auto& [name, device] : LocalDevices(*provider)) {
      CountVerbs(device.context);
    }
  }
}

// Counters of all ports are added up under one name.
void AddHardwareCounters(const std::string& device, int times,
                         Counters& counters, const std::string& devices) {
  std::error_code error;
  for (const fs::directory_entry& port :
       fs::directory_iterator(fs::path(devices) / device / "ports", error)) {
    for (const fs::directory_entry& entry :
         fs::directory_iterator(port.path() / "hw_counters", error)) {
      const std::string name = entry.path().filename();
      int64_t value = 0;
      // "lifespan" is not a counter, but the interval of their updates.
      if (name != "lifespan" && std::ifstream(entry.path()) >> value) {
        counters[name] += static_cast<double>(times * value);
      }
    }
  }
}

}  // namespace verbena::bench
