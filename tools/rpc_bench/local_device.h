// The devices of this host, and addresses that are reached through them.

#ifndef VERBENA_TOOLS_RPC_BENCH_LOCAL_DEVICE_H_
#define VERBENA_TOOLS_RPC_BENCH_LOCAL_DEVICE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/verbs/provider.h"

namespace verbena::bench {

// A device of this host and an address of this host that is reached through it.
struct LocalDevice {
  std::string name;     // "soft", "rxe0".
  std::string address;  // "127.0.0.1:0", "[fd00::7]:0": for any port.
  // The one that every connection of this process over the device has: the
  // connection manager opens a device once and for good.
  ibv_context* context = nullptr;
};

// The devices of `provider` that have an address this process can bind, by
// name; none if it may not use them.
std::vector<LocalDevice> LocalDevices(const transport::Provider& provider);

// Returns the device called `wanted`, or if that is empty the best: the first
// RDMA device (by name) with an address, else the software device. Fails with
// NOT_FOUND for a device that is not there or has no address.
absl::StatusOr<LocalDevice> ChooseLocalDevice(absl::string_view wanted);

// Has CountVerbs() count at the device called `wanted`, or if that is empty at
// all. To be called before there are connections.
void CountVerbsOfDevices(absl::string_view wanted);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_LOCAL_DEVICE_H_
