#include "tools/rpc_bench/local_device.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace verbena::bench {
namespace {

namespace fs = std::filesystem;

constexpr char kSoft[] = "soft";

// The names in `directory`, sorted; none if it can't be read.
std::vector<std::string> Names(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(directory, error)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The first line of `file`; empty if it can't be read, as those files of the
// kernel that describe an unused entry can't.
std::string FirstLine(const fs::path& file) {
  std::string line;
  std::ifstream stream(file);
  std::getline(stream, line);
  return line;
}

// The network interfaces of the active ports of `device`: those of its GIDs
// (RoCE, iWARP) and its own (IP over InfiniBand).
std::vector<std::string> Interfaces(const fs::path& device) {
  std::vector<std::string> interfaces;
  for (const std::string& port : Names(device / "ports")) {
    const fs::path directory = device / "ports" / port;
    if (!absl::StrContains(FirstLine(directory / "state"), "ACTIVE")) continue;
    for (const std::string& gid : Names(directory / "gid_attrs" / "ndevs")) {
      interfaces.push_back(FirstLine(directory / "gid_attrs" / "ndevs" / gid));
    }
  }
  for (const std::string& name : Names(device / "device" / "net")) {
    interfaces.push_back(name);
  }
  return interfaces;
}

// An address that is reached through the device; empty if there is none.
std::string AddressOf(const std::string& name, const Host& host) {
  for (const std::string& interface :
       Interfaces(fs::path(host.devices) / name)) {
    if (interface.empty()) continue;
    std::string address = host.interface_address(interface);
    if (!address.empty()) return address;
  }
  return "";
}

std::string TextOf(const sockaddr& address) {
  char text[INET6_ADDRSTRLEN];
  if (address.sa_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
    return inet_ntop(AF_INET, &ipv4.sin_addr, text, sizeof(text));
  }
  const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address);
  return absl::StrCat(
      "[", inet_ntop(AF_INET6, &ipv6.sin6_addr, text, sizeof(text)), "]");
}

bool IsGlobalIpv6(const sockaddr& address) {
  return address.sa_family == AF_INET6 &&
         !IN6_IS_ADDR_LINKLOCAL(
             &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

}  // namespace

std::string InterfaceAddress(const std::string& name) {
  ifaddrs* addresses = nullptr;
  if (getifaddrs(&addresses) != 0) return "";
  std::string best;
  for (const ifaddrs* entry = addresses; entry != nullptr;
       entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_name != name ||
        (entry->ifa_flags & IFF_UP) == 0) {
      continue;
    }
    if (entry->ifa_addr->sa_family == AF_INET) {
      best = TextOf(*entry->ifa_addr);
      break;
    }
    if (best.empty() && IsGlobalIpv6(*entry->ifa_addr)) {
      best = TextOf(*entry->ifa_addr);
    }
  }
  freeifaddrs(addresses);
  return best;
}

absl::StatusOr<LocalDevice> ChooseLocalDevice(absl::string_view wanted,
                                              const Host& host) {
  const LocalDevice soft = {.name = kSoft, .address = "127.0.0.1"};
  if (wanted == kSoft) return soft;
  const std::vector<std::string> names = Names(host.devices);
  if (!wanted.empty()) {
    if (std::find(names.begin(), names.end(), wanted) == names.end()) {
      return absl::NotFoundError(absl::StrCat(
          "no device \"", wanted, "\" on this host; there are: ",
          absl::StrJoin(names, ", "), names.empty() ? "" : ", ", kSoft));
    }
    const std::string address = AddressOf(std::string(wanted), host);
    if (!address.empty()) {
      return LocalDevice{.name = std::string(wanted), .address = address};
    }
    return absl::NotFoundError(absl::StrCat(
        "device \"", wanted,
        "\" has no active port whose network interface is up and has an "
        "address; see `rdma link` and `ip address`"));
  }
  if (access(host.connection_manager.c_str(), R_OK | W_OK) != 0) return soft;
  for (const std::string& name : names) {
    std::string address = AddressOf(name, host);
    if (!address.empty()) return LocalDevice{.name = name, .address = address};
  }
  return soft;
}

}  // namespace verbena::bench
