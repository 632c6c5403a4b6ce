#include "tools/rdma_doctor/devices.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace verbena::doctor {
namespace {

constexpr char kNoGid[] = "0000:0000:0000:0000:0000:0000:0000:0000";

// "4: ACTIVE" without its number.
std::string WordOf(const std::string& state) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(state, absl::MaxSplits(": ", 1));
  return parts.second.empty() ? parts.first : parts.second;
}

std::string NetdevOf(const SystemRoot& root, const Port& port,
                     const std::string& device_path) {
  // Takes the interface of the first GID that has one; else the parent that rxe
  // names; else the first interface of the device's PCI function.
  const std::string folder = port.path() + "/gid_attrs/ndevs";
  for (const Gid& gid : port.gids) {
    std::string name =
        root.Read(absl::StrCat(folder, "/", gid.index)).value_or("");
    if (!name.empty()) return name;
  }
  std::string parent = root.Read(device_path + "/parent").value_or("");
  if (!parent.empty()) return parent;
  const std::vector<std::string> nets = root.List(device_path + "/device/net");
  return nets.empty() ? "" : nets.front();
}

std::vector<Gid> ReadGids(const SystemRoot& root, const std::string& port) {
  std::vector<Gid> gids;
  for (const std::string& name : root.List(port + "/gids")) {
    Gid gid;
    gid.value = root.Read(absl::StrCat(port, "/gids/", name)).value_or("");
    // Entries of the table that are not set are all zero.
    if (gid.value.empty() || gid.value == kNoGid ||
        !absl::SimpleAtoi(name, &gid.index)) {
      continue;
    }
    gid.type =
        root.Read(absl::StrCat(port, "/gid_attrs/types/", name)).value_or("");
    gids.push_back(std::move(gid));
  }
  return gids;
}

// A file that is missing gives "unknown" or nothing, so that the rest of the
// port is still shown.
Port ReadPort(const SystemRoot& root, const std::string& device,
              const std::string& number) {
  Port port;
  port.device = device;
  port.number = number;
  const std::string path = port.path();
  port.state = WordOf(root.Read(path + "/state").value_or("unknown"));
  port.physical_state = WordOf(root.Read(path + "/phys_state").value_or(""));
  port.link_layer = root.Read(path + "/link_layer").value_or("unknown");
  port.rate = root.Read(path + "/rate").value_or("");
  port.gids = ReadGids(root, path);
  port.netdev = NetdevOf(root, port, "/sys/class/infiniband/" + device);
  return port;
}

}  // namespace

// RoCE writes IPv4 addresses as IPv4-mapped ones.
std::string Gid::IpAddress() const {
  in6_addr address = {};
  if (inet_pton(AF_INET6, value.c_str(), &address) != 1 ||
      IN6_IS_ADDR_LINKLOCAL(&address)) {
    return "";
  }
  char text[INET6_ADDRSTRLEN] = {};
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    inet_ntop(AF_INET, &address.s6_addr[12], text, sizeof(text));
  } else {
    inet_ntop(AF_INET6, &address, text, sizeof(text));
  }
  return text;
}

bool Port::HasIpGid() const {
  return std::any_of(gids.begin(), gids.end(),
                     [](const Gid& gid) { return !gid.IpAddress().empty(); });
}

std::string Port::path() const {
  return absl::StrCat("/sys/class/infiniband/", device, "/ports/", number);
}

// Finds the node of a device by searching the folder of nodes, because only a
// node names its device.
std::vector<Device> ReadDevices(const SystemRoot& root) {
  std::vector<Device> devices;
  for (const std::string& name : root.List("/sys/class/infiniband")) {
    Device device;
    device.name = name;
    for (const std::string& uverbs : root.List("/sys/class/infiniband_verbs")) {
      if (root.Read("/sys/class/infiniband_verbs/" + uverbs + "/ibdev") ==
          name) {
        device.uverbs = uverbs;
      }
    }
    const std::string ports = "/sys/class/infiniband/" + name + "/ports";
    for (const std::string& number : root.List(ports)) {
      device.ports.push_back(ReadPort(root, name, number));
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

std::string NetdevForRxe(const SystemRoot& root) {
  for (const std::string& name : root.List("/sys/class/net")) {
    const std::string folder = "/sys/class/net/" + name;
    // Bridges of Docker lead to no other host.
    if (name != "lo" && !absl::StartsWith(name, "docker") &&
        root.Read(folder + "/operstate") == "up") {
      return name;
    }
  }
  return "eth0";
}

}  // namespace verbena::doctor
