#include "transport/client/client_calls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/status_macros.h"

namespace verbena::transport {
namespace {

// How soon memory that was short is looked for again: the application gives
// Buffers back without telling.
constexpr absl::Duration kMemoryRetry = absl::Milliseconds(1);

}  // namespace

ClientCalls::ClientCalls(Poller& poller, PollerDevice& device,
                         MemoryDomain& memory, CmId id,
                         PollerDevice::QueuePair queue_pair,
                         const EndpointOptions& options,
                         std::function<void()> on_change)
    : on_change_(std::move(on_change)),
      shared_(*this, poller, device, memory, std::move(id),
              std::move(queue_pair), options),
      sent_(shared_, options.max_receive_message_bytes) {}

// Lets go of the queue pair before the memory of calls, because the device may
// READ and WRITE there until then.
ClientCalls::~ClientCalls() {
  // Before the queue pair: rdma_rxe waits 50 s for those that are bound.
  shared_.arenas.windows().Close();
  connection().DestroyQueuePair();
  // OnClosing() has ended them, and started none.
  CHECK_EQ(open_calls(), 0u);
  streams_.StopExpecting();
  sent_.FreeAll();
}

// No frame is sent before the peer's limits are known, and no slot exists
// before both sides have said how many.
absl::Status ClientCalls::Begin(const ConnectRequest& request,
                                const ConnectReply& reply) {
  connection().SetPeerLimits(reply.limits);
  sent_.Open(std::min<uint32_t>(connection().options().max_open_calls,
                                reply.limits.max_open_calls));
  RETURN_IF_ERROR(connection().FixQueuePair());
  return admission_.Begin(request, reply);
}

void ClientCalls::HandleOpening(absl::Span<const uint8_t> frame) {
  if (!admission_.Handle(frame)) return;
  if (connection().sealer() != nullptr) {
    const absl::Status status = shared_.arenas.SealParts(
        connection().memory().pd(), connection().options());
    if (!status.ok()) return connection().Refuse(status);
  }
  // A GOAWAY may have come before the WELCOME: then no call ever starts here.
  if (!draining_) requests_.Open();
  on_change_();
}

void ClientCalls::OnGoAway() {
  if (std::exchange(draining_, true)) return;
  // In this order: no REQUEST may follow this side's GOAWAY, and OnUnsent() may
  // start the calls again elsewhere.
  requests_.Stop();
  on_change_();
  connection().SendGoAway();
  requests_.ReturnUnsent(WhyClosed());
}

void ClientCalls::StartSlow(ClientCall* call) {
  call->link().slot = ClientCall::Link::kIdle;
  if (const absl::Status closed = WhyClosed(); !closed.ok()) {
    return call->OnUnsent(closed);
  }
  requests_.Start(call);
}

absl::Status ClientCalls::WhyClosed() const {
  if (!connection().failure().ok()) return connection().failure();
  if (!connection().usable()) {
    return absl::UnavailableError("the connection is not ready");
  }
  if (draining_) {
    return absl::UnavailableError(
        absl::StrCat("the server ", connection().peer(), " is shutting down"));
  }
  return absl::OkStatus();
}

// Ends a call wherever it stands: in a line it is only taken out, but a call
// that was sent leaves its slot in quarantine.
void ClientCalls::Cancel(ClientCall* call, const absl::Status& reason) {
  CHECK(!reason.ok());
  const uint32_t slot = call->link().slot;
  // The call was not started, or has ended.
  if (slot == ClientCall::Link::kIdle) return;
  if (slot == ClientCall::Link::kQueued) return requests_.Cancel(call, reason);
  sent_.Abandon(&shared_.slots.at(slot), reason);
  // The CANCEL is due, and need not wait for the next round.
  connection().SendWaitingSoon();
}

void ClientCalls::OnClosing() {
  requests_.Stop();
  on_change_();
  const absl::Status& reason = connection().failure();
  // A call that is started from inside OnUnsent() or OnFailed() is refused with
  // that reason at once.
  requests_.ReturnUnsent(reason);
  sent_.FailAll(reason);
}

absl::Time ClientCalls::NextTick() const {
  // While calls are short of memory, they look again as soon as they may.
  // Otherwise only the pool asks for a look.
  const bool short_of_memory = !shared_.waiting_large.empty() ||
                               shared_.arenas.lease_waits() ||
                               shared_.arenas.take_backs_due();
  const absl::Time look =
      short_of_memory ? absl::InfinitePast() : shared_.arenas.NextLook();
  return std::min({shared_.next_deadline, admission_.NextTick(),
                   std::max(look, connection().poller().now() + kMemoryRetry)});
}

void ClientCalls::OnTick(absl::Time now) {
  admission_.Tick(now);
  if (now >= shared_.next_deadline) {
    // Both EndExpired() note the deadlines of the calls that stay.
    shared_.next_deadline = absl::InfiniteFuture();
    requests_.EndExpired(now);
    sent_.EndExpired(now);
  }
  streams_.Tick();
  // Memory, and room that queue pairs share, come back without telling.
  if (!shared_.waiting_large.empty() || sent_.has_due() ||
      shared_.arenas.take_backs_due()) {
    SendWaiting();
  }
  shared_.arenas.GiveBackIdle(connection(), now);
  gauges_.Update(connection().memory(), sent_.CountLeases());
}

}  // namespace verbena::transport
