// The devices of this host, with the addresses by which they are reached.

#ifndef VERBENA_TOOLS_RPC_BENCH_LOCAL_DEVICES_H_
#define VERBENA_TOOLS_RPC_BENCH_LOCAL_DEVICES_H_

#include <map>
#include <string>

#include "transport/verbs/provider.h"

namespace verbena::bench {

// A device of this host and an address of this host that is reached through it.
struct LocalDevice {
  std::string name;     // "soft", "rxe0".
  std::string address;  // "127.0.0.1:0", "[fd00::7]:0": for any port.
  // The context of all connections of this process over the device, because the
  // connection manager opens a device once and never closes it.
  ibv_context* context = nullptr;
};

// Returns the devices of `provider` that have an address this process can bind,
// by name. Returns none if this process may not use them.
std::map<std::string, LocalDevice> LocalDevices(
    const transport::Provider& provider);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_LOCAL_DEVICES_H_
