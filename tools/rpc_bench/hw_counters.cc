#include "tools/rpc_bench/hw_counters.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

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
