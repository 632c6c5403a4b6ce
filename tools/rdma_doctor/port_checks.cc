#include "tools/rdma_doctor/port_checks.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/rdma_doctor/machine.h"

namespace verbena::doctor {
namespace {

// The least MTU of an Ethernet interface for RoCE packets of 4096 bytes, with
// their headers.
constexpr int64_t kNetdevMtuForLargest = 4200;

std::vector<Port> AllPorts(const std::vector<Device>& devices) {
  std::vector<Port> ports;
  for (const Device& device : devices) {
    ports.insert(ports.end(), device.ports.begin(), device.ports.end());
  }
  return ports;
}

// Returns the command to run for a port that has no link.
std::string HowToLinkUp(const SystemRoot& root, const Port& port) {
  if (!port.is_ethernet()) {
    return port.state == "INIT" || port.state == "ARMED"
               ? "systemctl start opensm   # on one host of the network"
               : "ibstat; iblinkinfo   # then check cable and switch";
  }
  if (port.netdev.empty()) return "rdma link   # names its network interface";
  const std::string flags = absl::StrCat("/sys/class/net/", port.netdev);
  // The carrier tells a missing link from an interface that is not set up.
  if (root.Read(flags + "/carrier") == "0") {
    return absl::StrCat("ethtool ", port.netdev,
                        "   # no carrier: check cable and switch");
  }
  return absl::StrCat("ip link set ", port.netdev, " up");
}

// Returns the file with the version of RoCE by which the connection manager
// connects. Its folder exists only if an administrator has made it.
std::string RoceModeFile(const Port& port) {
  return absl::StrCat("/sys/kernel/config/rdma_cm/", port.device, "/ports/",
                      port.number, "/default_roce_mode");
}

bool UsesVersionOne(const SystemRoot& root, const Port& port) {
  return absl::StrContains(root.Read(RoceModeFile(port)).value_or(""), "v1");
}

}  // namespace

// A port without a link is an error only if no port has one, because most
// machines have unused ports.
void CheckPorts(const SystemRoot& root, const std::vector<Device>& devices,
                Findings* findings) {
  const std::vector<Port> ports = AllPorts(devices);
  const bool any = std::any_of(ports.begin(), ports.end(),
                               [](const Port& port) { return port.active(); });
  for (const Port& port : ports) {
    const std::string seen = absl::StrCat(
        port.name(), " is ", port.state,
        port.physical_state.empty() ? "" : ", " + port.physical_state, ", ",
        port.link_layer, port.rate.empty() ? "" : ", " + port.rate,
        port.netdev.empty() ? "" : ", on " + port.netdev);
    if (port.active()) {
      findings->Ok("ports", seen);
      continue;
    }
    findings->Add(any ? Finding::warning : Finding::error, "ports", seen,
                  port.state == "INIT" || port.state == "ARMED"
                      ? "there is a cable, but no subnet manager has set the "
                        "port up: nobody can connect through it"
                      : "nobody can connect through it",
                  HowToLinkUp(root, port));
  }
}

// Lists the GIDs that stand for IP addresses, then judges: none, RoCE v1 only,
// v1 by the administrator's choice, or well.
void CheckGids(const SystemRoot& root, const std::vector<Device>& devices,
               Findings* findings) {
  const std::vector<Port> ports = AllPorts(devices);
  // Where InfiniBand has addresses of IP, they are those of IPoIB interfaces.
  const bool any = std::any_of(
      ports.begin(), ports.end(),
      [](const Port& port) { return !port.is_ethernet() || port.HasIpGid(); });
  for (const Port& port : ports) {
    if (!port.is_ethernet()) continue;
    std::vector<std::string> seen;
    bool routable = false;
    for (const Gid& gid : port.gids) {
      const std::string address = gid.IpAddress();
      if (address.empty()) continue;
      routable = routable || absl::StrContains(gid.type, "v2");
      seen.push_back(absl::StrCat("index ", gid.index, ": ", address, " (",
                                  gid.type.empty() ? "RoCE" : gid.type, ")"));
    }
    const std::string netdev = port.netdev.empty() ? "NETDEV" : port.netdev;
    if (seen.empty()) {
      findings->Add(
          any ? Finding::warning : Finding::error, "gids",
          absl::StrCat(port.name(), " has no GID of an IP address"),
          "the network interface has no address, so no route leads through "
          "the device",
          absl::StrCat("ip address add 10.0.0.1/24 dev ", netdev,
                       "   # an address of your network"));
    } else if (!routable) {
      findings->Add(
          Finding::warning, "gids",
          absl::StrCat(port.name(), " has ", absl::StrJoin(seen, ", ")),
          "only RoCE v1 is available: routers do not forward it, and peers "
          "with v2 do not answer it");
    } else if (UsesVersionOne(root, port)) {
      findings->Add(
          Finding::warning, "gids",
          absl::StrCat(port.name(), " connects by RoCE v1, and has ",
                       absl::StrJoin(seen, ", ")),
          "routers do not forward v1, and peers with v2 do not answer it",
          absl::StrCat("echo 'RoCE v2' >", RoceModeFile(port)));
    } else {
      findings->Ok("gids", absl::StrCat(port.name(), " has ",
                                        absl::StrJoin(seen, ", ")));
    }
  }
}

// RoCE packets have sizes that are powers of two, at most 4096 bytes. An
// interface is well if those fit.
void CheckMtu(const SystemRoot& root, const std::vector<Device>& devices,
              Findings* findings) {
  for (const Port& port : AllPorts(devices)) {
    if (!port.is_ethernet() || port.netdev.empty()) continue;
    const std::optional<int64_t> mtu =
        root.ReadNumber(absl::StrCat("/sys/class/net/", port.netdev, "/mtu"));
    if (!mtu.has_value()) continue;
    const std::string seen =
        absl::StrCat(port.netdev, " of ", port.name(), " has an MTU of ", *mtu);
    if (*mtu >= kNetdevMtuForLargest) {
      findings->Ok("mtu", seen);
      continue;
    }
    findings->Add(Finding::note, "mtu", seen,
                  "RDMA packets have less than 4096 bytes, so large messages "
                  "cost more than necessary",
                  absl::StrCat("ip link set ", port.netdev,
                               " mtu 4200   # or 9000; on all hosts and "
                               "switches between them"));
  }
}

namespace {

// Counters that grow when packets were lost, whatever the driver.
constexpr const char* kLossCounters[] = {
    "local_ack_timeout_err", "out_of_sequence",        "packet_seq_err",
    "retry_exceeded_err",    "retry_rnr_exceeded_err", "rnr_nak_retry_err",
};

// A note and no warning, because losses of long ago do not matter.
void CheckLosses(const SystemRoot& root, const Port& port, Findings* findings) {
  std::vector<std::string> grown;
  for (const char* name : kLossCounters) {
    const int64_t value =
        root.ReadNumber(absl::StrCat(port.path(), "/hw_counters/", name))
            .value_or(0);
    if (value > 0) grown.push_back(absl::StrCat(name, " ", value));
  }
  // Counters grow from the moment the device appears, so only zero says that
  // nothing was lost.
  if (grown.empty()) return;
  findings->Add(
      Finding::note, "losses",
      absl::StrCat(port.name(), " counts ", absl::StrJoin(grown, ", ")),
      "packets were lost or peers were silent since the device was created; "
      "look again later: only growing numbers matter",
      absl::StrCat("rdma statistic show link ", port.device, "/", port.number));
}

// Nothing if the driver has no such file: 1 if ECN is on for all priorities.
std::optional<bool> HasEcn(const SystemRoot& root, const std::string& netdev) {
  const std::string folder =
      absl::StrCat("/sys/class/net/", netdev, "/ecn/roce_np/enable");
  const std::vector<std::string> priorities = root.List(folder);
  if (priorities.empty()) return std::nullopt;
  return std::any_of(priorities.begin(), priorities.end(),
                     [&](const std::string& priority) {
                       return root.Read(folder + "/" + priority) == "1";
                     });
}

}  // namespace

// Reports losses of every port. Settings of ECN exist only on Ethernet, and
// only some drivers show them.
void CheckCongestion(const SystemRoot& root, const std::vector<Device>& devices,
                     Findings* findings) {
  for (const Port& port : AllPorts(devices)) {
    CheckLosses(root, port, findings);
    if (!port.is_ethernet() || port.netdev.empty()) continue;
    // rxe runs on the host's network stack, and has none of these settings.
    if (root.Exists("/sys/class/infiniband/" + port.device + "/parent")) {
      continue;
    }
    const std::optional<bool> ecn = HasEcn(root, port.netdev);
    if (ecn == true) {
      findings->Ok("ecn",
                   port.netdev + " answers packets that are marked (ECN)");
    } else if (ecn == false) {
      findings->Add(
          Finding::warning, "ecn",
          port.netdev + " does not answer packets that are marked (ECN)",
          "a congested network drops packets instead of slowing "
          "senders down",
          absl::StrCat("echo 1 >/sys/class/net/", port.netdev,
                       "/ecn/roce_np/enable/3   # and roce_rp"));
    } else {
      findings->Add(Finding::note, "ecn",
                    absl::StrCat("the driver of ", port.netdev,
                                 " does not say whether ECN is on"),
                    "ECN and PFC keep RoCE from losing packets",
                    absl::StrCat("dcb pfc show dev ", port.netdev,
                                 "   # or mlnx_qos -i ", port.netdev));
    }
  }
}

// Compares the processors on which this process may run with those of the
// device's node.
void CheckNuma(const SystemRoot& root, const std::vector<Device>& devices,
               Findings* findings) {
  const std::set<int> allowed =
      ParseRanges(ProcessStatus(root, "Cpus_allowed_list"));
  for (const Device& device : devices) {
    const int64_t node = root.ReadNumber("/sys/class/infiniband/" +
                                         device.name + "/device/numa_node")
                             .value_or(-1);
    if (node < 0) continue;  // The machine has one node, or no hardware.
    const std::string seen =
        absl::StrCat(device.name, " is on NUMA node ", node);
    const std::set<int> near =
        ParseRanges(root.Read(absl::StrCat("/sys/devices/system/node/node",
                                           node, "/cpulist"))
                        .value_or(""));
    const bool all_near =
        std::includes(near.begin(), near.end(), allowed.begin(), allowed.end());
    const bool any_near =
        std::any_of(allowed.begin(), allowed.end(),
                    [&](int each) { return near.count(each) != 0; });
    const std::string mend = absl::StrCat("numactl --cpunodebind=", node,
                                          " --membind=", node, " PROGRAM");
    if (all_near) {
      findings->Ok("numa", seen + ", and so is this process");
    } else if (any_near) {
      findings->Add(
          Finding::note, "numa", seen + ", this process may also run on others",
          "calls take longer from the processors of another node", mend);
    } else {
      findings->Add(Finding::warning, "numa",
                    seen + ", this process may run only on others",
                    "each call takes longer", mend);
    }
  }
}

}  // namespace verbena::doctor
