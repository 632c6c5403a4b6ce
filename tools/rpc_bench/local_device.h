// The device that rpc_bench takes when it runs both ends itself.

#ifndef VERBENA_TOOLS_RPC_BENCH_LOCAL_DEVICE_H_
#define VERBENA_TOOLS_RPC_BENCH_LOCAL_DEVICE_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace verbena::bench {

// A device of this host and an address of this host that is reached through it.
struct LocalDevice {
  std::string name;     // "soft", "rxe0".
  std::string address;  // "127.0.0.1", "[fd00::7]": ready for a port after it.
};

// An address of the network interface `name`, in the form of
// LocalDevice::address: IPv4 if it has one. Empty when it has none, or is down.
std::string InterfaceAddress(const std::string& name);

// What there is on a host; the defaults are this one. For tests.
struct Host {
  // Holds a directory for each RDMA device, laid out as the kernel does.
  std::string devices = "/sys/class/infiniband";

  // What a process must be able to open before it can use an RDMA device.
  std::string connection_manager = "/dev/infiniband/rdma_cm";

  std::function<std::string(const std::string& name)> interface_address =
      InterfaceAddress;
};

// Returns the device called `wanted`, or if that is empty the best: the first
// RDMA device (by name) with an active port and an address that this process
// may use, else the software device. Fails with NOT_FOUND for a device that is
// not there or has no address.
absl::StatusOr<LocalDevice> ChooseLocalDevice(absl::string_view wanted,
                                              const Host& host = Host());

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_LOCAL_DEVICE_H_
