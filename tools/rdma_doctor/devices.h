// The RDMA devices of a machine, as sysfs describes them.

#ifndef VERBENA_TOOLS_RDMA_DOCTOR_DEVICES_H_
#define VERBENA_TOOLS_RDMA_DOCTOR_DEVICES_H_

#include <string>
#include <vector>

#include "tools/rdma_doctor/system_root.h"

namespace verbena::doctor {

// An entry of a port's table of addresses.
struct Gid {
  int index = 0;
  std::string value;  // "fe80:0000:0000:0000:...".
  std::string type;   // "RoCE v2", "IB/RoCE v1"; "" if the kernel doesn't say.

  // The IPv4 address, or the IPv6 address that is not local to a link, that it
  // stands for; "" if it stands for neither.
  std::string IpAddress() const;
};

struct Port {
  std::string device;
  std::string number;
  std::string state;           // "ACTIVE", "DOWN", "INIT".
  std::string physical_state;  // "LinkUp", "Disabled", "Polling".
  std::string link_layer;      // "Ethernet", "InfiniBand".
  std::string rate;            // "100 Gb/sec (4X EDR)".
  std::string netdev;          // "" if it is not known.
  std::vector<Gid> gids;       // Only those that are set.

  bool active() const { return state == "ACTIVE"; }
  bool is_ethernet() const { return link_layer == "Ethernet"; }
  bool HasIpGid() const;
  std::string name() const { return device + " port " + number; }
  std::string path() const;  // Its folder in sysfs.
};

struct Device {
  std::string name;    // "mlx5_0".
  std::string uverbs;  // "uverbs0"; "" without the module ib_uverbs.
  std::vector<Port> ports;
};

std::vector<Device> ReadDevices(const SystemRoot& root);

// The network interface to make an rxe device of: the first that is up and not
// the loopback interface, else "eth0".
std::string NetdevForRxe(const SystemRoot& root);

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_DEVICES_H_
