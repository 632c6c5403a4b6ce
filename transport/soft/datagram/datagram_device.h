// The sockets and groups that all datagrams of a process share.

#ifndef VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_DEVICE_H_
#define VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_DEVICE_H_

#include "transport/soft/datagram/datagram_network.h"
#include "transport/soft/datagram/multicast_groups.h"
#include "transport/soft/device/soft_device.h"

namespace verbena::soft {

// The way to other hosts, and the groups. Thread-safe.
struct DatagramDevice {
  // Returns the one of SoftDevice::Get(). Like the device it is never
  // destroyed.
  static DatagramDevice& Get() {
    static auto* const device = new DatagramDevice(SoftDevice::Get());
    return *device;
  }

  explicit DatagramDevice(SoftDevice& device)
      : network(device.engine(), device.network().port()),
        groups(device.engine(), network.port()) {}

  DatagramNetwork network;
  MulticastGroups groups;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_DEVICE_H_
