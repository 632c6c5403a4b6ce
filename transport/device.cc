#include "transport/device.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "transport/soft/soft_provider.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/event_channel.h"
#include "transport/verbs/system_provider.h"

namespace verbena::transport {
namespace {

// Resolving asks the routing table, and at most a neighbour on the wire.
constexpr absl::Duration kResolveTimeout = absl::Milliseconds(500);

// Lets the RDMA CM resolve the address, because it alone knows which addresses
// an RDMA device reaches. Any failure counts as "no".
bool SystemRoutesTo(const base::SocketAddress& address) {
  const Provider& system = SystemProvider();
  absl::StatusOr<EventChannel> channel = EventChannel::Create(system);
  if (!channel.ok()) return false;
  absl::StatusOr<CmId> id = CmId::Create(system, *channel);
  if (!id.ok()) return false;
  if (!id->ResolveAddr({}, address, kResolveTimeout).ok()) return false;
  const absl::StatusOr<std::optional<CmEvent>> event =
      // Longer than the kernel tries, so that its own ADDR_ERROR comes first.
      channel->WaitEvent(2 * kResolveTimeout);
  return event.ok() && event->has_value() &&
         (*event)->type == RDMA_CM_EVENT_ADDR_RESOLVED;
}

std::vector<std::string> DeviceNames() {
  std::vector<std::string> names = {std::string(kSoftDevice)};
  const VerbsOps& verbs = SystemProvider().verbs;
  int count = 0;
  ibv_device** const list = verbs.get_device_list(&count);
  for (int i = 0; list != nullptr && i < count; ++i) {
    names.emplace_back(verbs.get_device_name(list[i]));
  }
  // No list comes where libibverbs finds no RDMA at all: see system_provider.h.
  if (list != nullptr) verbs.free_device_list(list);
  return names;
}

}  // namespace

bool HasIwarpDevice() {
  const VerbsOps& verbs = SystemProvider().verbs;
  int count = 0;
  ibv_device** const list = verbs.get_device_list(&count);
  if (list == nullptr) return false;
  const bool found = std::any_of(list, list + count, [](ibv_device* device) {
    return device->transport_type == IBV_TRANSPORT_IWARP;
  });
  verbs.free_device_list(list);
  return found;
}

// The option wins over the environment.
std::string WantedDevice(const EndpointOptions& options) {
  if (!options.device.empty()) return options.device;
  const char* const variable = std::getenv(kDeviceVariable);
  return variable == nullptr ? "" : variable;
}

// Lists the devices only if one is wanted, because the list is asked from the
// kernel.
absl::Status CheckDevice(absl::string_view wanted_device) {
  // The software device is always there.
  if (wanted_device.empty() || wanted_device == kSoftDevice) {
    return absl::OkStatus();
  }
  const std::vector<std::string> names = DeviceNames();
  if (std::find(names.begin(), names.end(), wanted_device) != names.end()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "there is no device \"", wanted_device,
      "\", which the option for the device or ", kDeviceVariable,
      " asks for; this machine has: ", absl::StrJoin(names, ", ")));
}

bool IsRdma(const Provider& provider) { return &provider == &SystemProvider(); }

const Provider* FallbackFor(const Provider& provider,
                            absl::string_view wanted_device) {
  const bool falls_back = wanted_device.empty() && IsRdma(provider);
  return falls_back ? &soft::SoftProvider() : nullptr;
}

bool IsCheapToAsk(const Provider& provider,
                  const base::SocketAddress& address) {
  return &provider == &soft::SoftProvider() && soft::IsOnThisHost(address);
}

const Provider& ChooseProvider(const base::SocketAddress& address,
                               absl::string_view wanted_device) {
  if (wanted_device == kSoftDevice) return soft::SoftProvider();
  if (!wanted_device.empty()) return SystemProvider();
  if (SystemRoutesTo(address)) return SystemProvider();
  return soft::SoftProvider();
}

std::vector<const Provider*> ListenProviders(absl::string_view wanted_device) {
  if (wanted_device == kSoftDevice) return {&soft::SoftProvider()};
  if (!wanted_device.empty()) return {&SystemProvider()};
  // An event channel can be made only where the kernel has RDMA.
  if (!EventChannel::Create(SystemProvider()).ok()) {
    return {&soft::SoftProvider()};
  }
  return {&SystemProvider(), &soft::SoftProvider()};
}

}  // namespace verbena::transport
