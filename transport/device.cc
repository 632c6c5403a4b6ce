#include "transport/device.h"

#include <cstdlib>
#include <optional>

#include "absl/time/time.h"
#include "transport/soft/soft_provider.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/event_channel.h"
#include "transport/verbs/system_provider.h"

namespace verbena::transport {
namespace {

// Resolving asks the routing table, and at most a neighbour on the wire.
constexpr absl::Duration kResolveTimeout = absl::Milliseconds(500);

bool SystemRoutesTo(const base::SocketAddress& address) {
  const Provider& system = SystemProvider();
  absl::StatusOr<EventChannel> channel = EventChannel::Create(system);
  if (!channel.ok()) return false;
  absl::StatusOr<CmId> id = CmId::Create(system, *channel);
  if (!id.ok()) return false;
  if (!id->ResolveAddr({}, address, kResolveTimeout).ok()) return false;
  const absl::StatusOr<std::optional<CmEvent>> event =
      channel->WaitEvent(2 * kResolveTimeout);
  return event.ok() && event->has_value() &&
         (*event)->type == RDMA_CM_EVENT_ADDR_RESOLVED;
}

}  // namespace

std::string WantedDevice(const EndpointOptions& options) {
  if (!options.device.empty()) return options.device;
  const char* const variable = std::getenv(kDeviceVariable);
  return variable == nullptr ? "" : variable;
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
  if (!EventChannel::Create(SystemProvider()).ok()) {
    return {&soft::SoftProvider()};
  }
  return {&SystemProvider(), &soft::SoftProvider()};
}

}  // namespace verbena::transport
