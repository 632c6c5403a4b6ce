#include "tools/rdma_doctor/live_checks.h"

#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "transport/base/socket_address.h"
#include "transport/base/status_macros.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/event_channel.h"

namespace verbena::doctor {
namespace {

using base::SocketAddress;
using transport::CmEvent;
using transport::CmId;
using transport::EventChannel;
using transport::Provider;

constexpr absl::Duration kResolveTimeout = absl::Seconds(1);

// Bytes of a packet; the enumeration counts from 1 for 256.
int BytesOf(ibv_mtu mtu) { return 128 << static_cast<int>(mtu); }

// Sums up the device in one line: its queue pairs, its firmware, and the
// packets of each port.
std::string Describe(const Provider& provider, ibv_context* context,
                     ibv_device* device) {
  ibv_device_attr attributes = {};
  if (provider.verbs.query_device(context, &attributes) != 0) {
    return absl::StrCat("query_device failed: ", std::strerror(errno));
  }
  std::string text = absl::StrCat(
      provider.verbs.get_device_name(device), ": ", attributes.max_qp,
      " queue pairs of ", attributes.max_qp_wr, " work requests, firmware ",
      attributes.fw_ver[0] == '\0' ? "unknown" : attributes.fw_ver);
  for (int port = 1; port <= attributes.phys_port_cnt; ++port) {
    ibv_port_attr of_port = {};
    if (provider.verbs.query_port(context, static_cast<uint8_t>(port),
                                  &of_port) != 0) {
      continue;
    }
    absl::StrAppend(&text, "; port ", port, ": packets of ",
                    BytesOf(of_port.active_mtu), " of ",
                    BytesOf(of_port.max_mtu), " bytes");
  }
  return text;
}

struct Route {
  std::string device;
  int port = 0;
  std::string gid;  // In the form of Gid::value.
};

// Writes all digits, as sysfs does, so that both can be compared as texts.
std::string TextOf(const ibv_gid& gid) {
  std::vector<std::string> parts;
  for (int i = 0; i < 16; i += 2) {
    parts.push_back(absl::StrCat(absl::Hex(gid.raw[i], absl::kZeroPad2),
                                 absl::Hex(gid.raw[i + 1], absl::kZeroPad2)));
  }
  return absl::StrJoin(parts, ":");
}

// Lets the RDMA CM resolve the address, which also tells port and GID. No
// connection is made.
absl::StatusOr<Route> FindRoute(const Provider& provider,
                                const SocketAddress& address) {
  ASSIGN_OR_RETURN(EventChannel channel, EventChannel::Create(provider));
  ASSIGN_OR_RETURN(CmId id, CmId::Create(provider, channel));
  RETURN_IF_ERROR(id.ResolveAddr({}, address, kResolveTimeout));
  ASSIGN_OR_RETURN(const std::optional<CmEvent> event,
                   // Longer than the kernel tries, so that its own error comes
                   // first.
                   channel.WaitEvent(2 * kResolveTimeout));
  if (!event.has_value() || event->type != RDMA_CM_EVENT_ADDR_RESOLVED ||
      id.context() == nullptr) {
    return absl::UnavailableError(absl::StrCat("no RDMA device leads to ",
                                               address.ToString(),
                                               ", or no neighbour "
                                               "answers for it"));
  }
  Route route;
  route.device = provider.verbs.get_device_name(id.context()->device);
  route.port = id.port_num();
  route.gid = TextOf(id.get()->route.addr.addr.ibaddr.sgid);
  return route;
}

// Where the table of the port has that GID: the entry that the connection
// manager takes is of v2, unless there is none.
std::string DescribeGid(const std::vector<Device>& devices,
                        const Route& route) {
  std::string text = "GID " + route.gid;
  for (const Device& device : devices) {
    for (const Port& port : device.ports) {
      if (device.name != route.device ||
          port.number != absl::StrCat(route.port)) {
        continue;
      }
      for (const Gid& gid : port.gids) {
        if (gid.value != route.gid) continue;
        text =
            absl::StrCat("GID index ", gid.index, ", ",
                         gid.IpAddress().empty() ? gid.value : gid.IpAddress(),
                         gid.type.empty() ? "" : ", " + gid.type);
        if (gid.type == "RoCE v2") return text;
      }
    }
  }
  return text;
}

}  // namespace

// Opens every device that libibverbs lists, and compares their number with that
// of sysfs: a driver may lack its part in user space.
void CheckOpening(const Provider& provider, const std::vector<Device>& devices,
                  Findings* findings) {
  int count = 0;
  ibv_device** const list = provider.verbs.get_device_list(&count);
  int found = 0;
  for (int i = 0; list != nullptr && i < count; ++i) {
    ++found;
    ibv_context* const context = provider.verbs.open_device(list[i]);
    if (context == nullptr) {
      findings->Add(Finding::error, "open",
                    absl::StrCat(provider.verbs.get_device_name(list[i]),
                                 " can't be opened: ", std::strerror(errno)),
                    "no program of this user can use it",
                    "ls -l /dev/infiniband; ulimit -l");
      continue;
    }
    findings->Ok("open", Describe(provider, context, list[i]));
    // Nothing is kept open: calls open the device themselves.
    provider.verbs.close_device(context);
  }
  if (list != nullptr) provider.verbs.free_device_list(list);
  if (found < static_cast<int>(devices.size())) {
    findings->Add(Finding::error, "open",
                  absl::StrCat("libibverbs finds ", found, " of ",
                               devices.size(), " devices"),
                  "the provider library for the driver of the others is "
                  "missing, or their files in /dev/infiniband",
                  "apt-get install ibverbs-providers   # dnf: libibverbs");
  }
}

// Finds out whether calls to `target` go over an RDMA device, and over which
// port and GID.
void CheckRoute(const Provider& provider, const std::vector<Device>& devices,
                const std::string& target, Findings* findings) {
  const absl::StatusOr<SocketAddress> address = SocketAddress::Parse(target);
  if (!address.ok()) {
    findings->Add(Finding::error, "route", target,
                  std::string(address.status().message()),
                  "getent hosts " + target.substr(0, target.rfind(':')));
    return;
  }
  if (devices.empty()) return;  // All calls use the software device.
  const absl::StatusOr<Route> route = FindRoute(provider, *address);
  if (!route.ok()) {
    findings->Add(
        Finding::warning, "route", "no RDMA device leads to " + target,
        absl::StrCat("the software device is used, over TCP, unless another "
                     "device is named: ",
                     route.status().message()),
        absl::StrCat("ip route get ", address->HostString(), "; rdma link"));
    return;
  }
  findings->Ok("route",
               absl::StrCat("to ", target, ": ", route->device, " port ",
                            route->port, ", ", DescribeGid(devices, *route)));
}

}  // namespace verbena::doctor
