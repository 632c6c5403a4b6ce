// Chooses between the RDMA devices of the machine and the software device. The
// only place that does.

#ifndef VERBENA_TRANSPORT_DEVICE_H_
#define VERBENA_TRANSPORT_DEVICE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/socket_address.h"
#include "transport/verbs/provider.h"

namespace verbena::transport {

// The name of the software device, for EndpointOptions::device.
inline constexpr absl::string_view kSoftDevice = "soft";

// The environment variable that names a device where the options don't.
inline constexpr char kDeviceVariable[] = "VERBENA_DEVICE";

// The name in the options, else that in the environment, else "".
std::string WantedDevice(const EndpointOptions& options);

// FAILED_PRECONDITION, naming those that there are, if there is a name in
// `wanted_device` and the machine has no such device.
absl::Status CheckDevice(absl::string_view wanted_device);

// The provider through which to call `address`: the one that has the wanted
// device, else the RDMA device that routes to it, else the software device. May
// block for as long as resolving an address takes, a fraction of a second.
const Provider& ChooseProvider(const base::SocketAddress& address,
                               absl::string_view wanted_device);

// Whether the provider is the one of RDMA devices.
bool IsRdma(const Provider& provider);

// The provider that reaches over TCP what `provider`, the choice for an
// address, reaches over RDMA: null if a device is wanted, or if it is TCP
// already.
const Provider* FallbackFor(const Provider& provider,
                            absl::string_view wanted_device);

// Whether the machine has an iWARP device. Its connection manager listens at
// TCP ports, as the software device does for other hosts.
bool HasIwarpDevice();

// Whether an attempt to connect to `address`, where nobody listens, costs
// nobody but this process.
bool IsCheapToAsk(const Provider& provider, const base::SocketAddress& address);

// The providers on which to listen: the one that has the wanted device, else
// both (the system one only if the machine has RDMA).
std::vector<const Provider*> ListenProviders(absl::string_view wanted_device);

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_DEVICE_H_
