// The GIDs of the device's ports: the addresses of this host, in the form of
// RoCE v2, so that a GID shows the IP address it stands for.

#ifndef VERBENA_TRANSPORT_SOFT_ADDRESS_GID_TABLE_H_
#define VERBENA_TRANSPORT_SOFT_ADDRESS_GID_TABLE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/base/socket_address.h"

namespace verbena::soft {

// The GID of an address: ::ffff:a.b.c.d for IPv4; an IPv6 address is a GID as
// it is. The port does not matter.
ibv_gid GidOf(const base::SocketAddress& address);

// The address of a GID, with `port`; empty for a GID of zeros. A link-local
// address means nothing without the interface it is on. A GID does not name
// that, so `interface_index` does; for other addresses it is ignored.
base::SocketAddress AddressOf(const ibv_gid& gid, uint16_t port = 0,
                              uint32_t interface_index = 0);

bool SameGid(const ibv_gid& a, const ibv_gid& b);

// Whether `gid` stands for a group: an IPv6 multicast address, or an IPv4 one
// in mapped form.
bool IsMulticastGid(const ibv_gid& gid);

// An address of this host.
struct HostAddress {
  base::SocketAddress address;  // Port 0.
  uint32_t interface_index = 0;
  bool running = true;  // Its interface has a carrier.
};

// The addresses of all interfaces that are up, in no order; nothing when the
// kernel does not tell, as to a process that has no descriptor left.
std::optional<std::vector<HostAddress>> ReadHostAddresses();

// The table. A new table is in this order, so that index 0 is the address that
// other hosts are most likely to reach: IPv4, then IPv6, then link-local IPv6;
// then the same of interfaces without a carrier; then loopback addresses, so
// that a machine with nothing else has them from index 0 on. Among equal ones
// the older interface comes first.
//
// An address keeps its index as long as the host has it. After that its entry
// is empty, and the next new address takes the entry, as on a NIC.
//
// Thread-safe.
class GidTable {
 public:
  // How many entries the port reports. Addresses beyond it are left out.
  static constexpr int kEntries = 256;

  GidTable() = default;
  GidTable(const GidTable&) = delete;
  GidTable& operator=(const GidTable&) = delete;

  // Brings the table up to date.
  void Update(const std::vector<HostAddress>& addresses);
  // Calls Update() with the host's addresses. If they cannot be read, the table
  // stays as it was, so that existing connections keep their addresses.
  void Refresh();

  // Entry `index`, or nothing when there is none or it is empty. The table is
  // the same for every port, so port_num is left 0.
  std::optional<ibv_gid_entry> At(int index) const;
  // The index of `gid`; nothing when this host has no such address.
  std::optional<int> Find(const ibv_gid& gid) const;

 private:
  struct Entry {
    ibv_gid gid = {};  // All zero when empty.
    uint32_t interface_index = 0;
  };

  mutable base::Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // Up to kEntries.
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_ADDRESS_GID_TABLE_H_
