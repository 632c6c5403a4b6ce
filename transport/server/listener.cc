#include "transport/server/listener.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "transport/base/clock.h"
#include "transport/base/log.h"
#include "transport/base/status_macros.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

// Clients that may be waiting to be accepted at once; further ones are rejected
// without a word. It is as many as the kernel's connection manager allows, so
// that a thousand clients may come while the poller does something else.
constexpr int kBacklog = 1024;

// Pause between attempts to listen at an address whose device was removed.
constexpr absl::Duration kTryAgain = absl::Seconds(1);

void RejectWith(CmId id, RejectReason reason, std::string text) {
  const std::string bytes = EncodeReject({reason, std::move(text)});
  // The client may be gone already, and then there is nobody to tell.
  id.Reject(absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(bytes.data()),
                                bytes.size()))
      .IgnoreError();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Create(
    const Provider& provider, std::string device, int dscp, Accept accept) {
  ASSIGN_OR_RETURN(EventChannel channel, EventChannel::Create(provider));
  return absl::WrapUnique(new Listener(provider, std::move(channel),
                                       std::move(device), dscp,
                                       std::move(accept)));
}

absl::StatusOr<base::SocketAddress> Listener::Listen(
    const base::SocketAddress& address,
    std::shared_ptr<const ServerCredentials> credentials) {
  ASSIGN_OR_RETURN(CmId id, ListenAt(address));
  base::SocketAddress bound = address;
  bound.set_port(id.SrcPort());
  listening_.push_back({bound, std::move(credentials), std::move(id)});
  return bound;
}

absl::StatusOr<CmId> Listener::ListenAt(const base::SocketAddress& address) {
  ASSIGN_OR_RETURN(CmId id, CmId::Create(provider_, channel_));
  if (dscp_ >= 0) {
    RETURN_IF_ERROR(id.SetTrafficClass(TrafficClass(dscp_)));
  }
  RETURN_IF_ERROR(id.BindAddr(address));
  RETURN_IF_ERROR(id.Listen(kBacklog));
  return id;
}

void Listener::StopListening() {
  // Clients that have come by now are handed over before the addresses go.
  OnReadable();
  listening_.clear();
  next_try_ = absl::InfiniteFuture();
}

// Tries all addresses that have lost their device. Those that fail again share
// the next attempt.
void Listener::Tick(absl::Time now) {
  if (now < next_try_) return;
  next_try_ = absl::InfiniteFuture();
  for (Listening& each : listening_) {
    if (each.id.has_value()) continue;
    absl::StatusOr<CmId> id = ListenAt(each.address);
    if (!id.ok()) {
      next_try_ = now + kTryAgain;
      continue;
    }
    each.id.emplace(*std::move(id));
    base::Log::OfProcess().Write(
        LogSeverity::kInfo,
        absl::StrCat("listening at ", each.address.ToString(), " again"));
  }
}

void Listener::OnReadable() {
  while (true) {
    const absl::StatusOr<std::optional<CmEvent>> event = channel_.Poll();
    if (!event.ok() || !event->has_value()) return;
    // Everything else is about ids that have moved to their poller's channel.
    if ((*event)->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      HandleRequest(**event);
    } else if ((*event)->type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
      HandleRemoval((*event)->id);
    }
  }
}

void Listener::HandleRemoval(const rdma_cm_id* id) {
  for (Listening& each : listening_) {
    if (!each.id.has_value() || each.id->get() != id) continue;
    each.id.reset();
    next_try_ = base::Now() + kTryAgain;
    base::Log::OfProcess().Write(
        LogSeverity::kWarning,
        absl::StrCat("no client can connect to ", each.address.ToString(),
                     ": its device was removed; the server will listen there "
                     "again when the device is back"));
  }
}

// Looks at the device, the private data and the address, and refuses by the
// first that is wrong. Hands the others over to a poller.
void Listener::HandleRequest(const CmEvent& event) {
  CmId id = CmId::Adopt(provider_, event.id);
  const std::string device =
      provider_.verbs.get_device_name(id.context()->device);
  if (!device_.empty() && device_ != device) {
    RejectWith(std::move(id), RejectReason::kFull,
               absl::StrCat("this server accepts clients only on the device ",
                            device_, ", and not on ", device));
    return;
  }
  const absl::StatusOr<ConnectRequest> request =
      DecodeConnectRequest(event.private_data());
  if (!request.ok()) {
    RejectWith(std::move(id),
               absl::IsUnavailable(request.status()) ? RejectReason::kBadVersion
                                                     : RejectReason::kBadHello,
               std::string(request.status().message()));
    return;
  }
  const auto listening = std::find_if(
      listening_.begin(), listening_.end(), [&event](const Listening& each) {
        return each.id.has_value() && each.id->get() == event.listen_id;
      });
  // The request may have been on its way when StopListening() gave the
  // address back.
  if (listening == listening_.end()) {
    RejectWith(std::move(id), RejectReason::kShuttingDown,
               "the server no longer listens there");
    return;
  }
  accept_({&provider_,
           std::move(id),
           *request,
           event.initiator_depth,
           {.credentials = listening->credentials}});
}

}  // namespace verbena::transport
