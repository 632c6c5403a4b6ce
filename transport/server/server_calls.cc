#include "transport/server/server_calls.h"

#include <algorithm>
#include <utility>

#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {
namespace {

// How soon memory that was short is looked for again: other connections of the
// device give it back without telling.
constexpr absl::Duration kMemoryRetry = absl::Milliseconds(1);

// How often to look whether a client's credentials were withdrawn.
constexpr absl::Duration kWithdrawalLook = absl::Seconds(1);

}  // namespace

ServerCalls::ServerCalls(Poller& poller, PollerThreads& threads,
                         PollerDevice& device, CmId id,
                         PollerDevice::QueuePair queue_pair,
                         const EndpointOptions& options,
                         const ConnectRequest& request, AdmissionTerms terms,
                         ServerHandler& handler)
    : threads_(threads),
      handler_(handler),
      shared_(*this, *this, handler, poller, device, std::move(id),
              std::move(queue_pair), options),
      admission_(shared_.connection, std::move(terms), request,
                 base::Now() + options.connect_timeout),
      stalls_(shared_, intake_, streams_, replies_, options.stall_timeout) {
  if (device.limits().iwarp) {
    // A READ arrives as a write of the peer's there, and the pool's own key
    // allows none.
    shared_.transfers.RegisterSinks(device.shared_memory().pd());
  }
  connection().SetPeerLimits(request.limits);
  // Decoding has checked that it does not wrap around.
  CHECK(shared_.arenas.Add(0, request.arena).ok());
}

ServerCalls::~ServerCalls() {
  CHECK_EQ(shared_.slots.handling(), 0u);
  // Members that are destroyed next free memory that the device may touch
  // until here.
  connection().DestroyQueuePair();
}

void ServerCalls::HandleArena(absl::Span<const uint8_t> frame) {
  const ArenaHeader header = LoadHeader<ArenaHeader>(frame);
  const absl::Status status =
      header.bytes == 0
          ? shared_.arenas.Remove(header.index)
          : shared_.arenas.Add(header.index,
                               {header.address, header.bytes, header.rkey});
  if (!status.ok()) connection().ProtocolError(status.message());
}

void ServerCalls::HandleLease(absl::Span<const uint8_t> frame) {
  const LeaseHeader header = LoadHeader<LeaseHeader>(frame);
  ServerCall* const call = shared_.slots.Find(header.frame.call_id);
  if (call == nullptr) return;
  // The stream may be over, and the call with it, so `streamed` says whose
  // LEASE it is.
  const bool of_stream =
      call->stream_part().streamed && call->id() == header.frame.call_id;
  if (of_stream) return streams_.HandleLease(header, call);
  replies_.HandleLease(header, call);
}

void ServerCalls::HandleCancel(absl::Span<const uint8_t> frame) {
  const FrameHeader header = LoadHeader<FrameHeader>(frame);
  ServerCall* const call = shared_.slots.Find(header.call_id);
  // Its RESPONSE may have crossed the CANCEL.
  if (call == nullptr || !call->is_open() || call->id() != header.call_id) {
    return;
  }
  call->set_cancelled();
  if (!call->is_handled()) {
    return stalls_.EndWaiting(
        call, absl::CancelledError("the client cancelled the call"));
  }
  if (call->stream() != nullptr) call->stream()->Close();
  // The handler owes Finish() all the same.
  shared_.slots.TellHandlerOfCancel(call);
}

// Frees the calls that nobody uses. A handler has its call until Finish(), and
// a READ has its own until it is flushed.
void ServerCalls::OnClosing() {
  if (admission_.Abandon()) handler_.OnUnauthenticated();
  // First, because a call must stand in no line when it is freed.
  shared_.lines.Clear();
  shared_.slots.VisitOpen([this](ServerCall* call) {
    call->set_cancelled();
    if (call->stream() != nullptr) call->stream()->Close();
    if (call->is_handled()) {
      shared_.slots.TellHandlerOfCancel(call);
    } else if (call->state() != ServerCallState::kReading) {
      // Memory that the device may still touch is held by its transfer.
      shared_.slots.Free(call);
    }
  });
}

// Ends the connection if it may not go on, then calls that have waited too
// long. Calls that still wait get what memory there is by then.
void ServerCalls::OnTick(absl::Time now) {
  if (!connection().usable() && now >= admission_.deadline()) {
    return connection().ProtocolError(
        "it did not send its HELLO or its credentials in time");
  }
  if (admission_.revoked()) {
    return connection().Refuse(absl::UnauthenticatedError(
        "the server has withdrawn the credentials of this client"));
  }
  stalls_.Tick(now);
  FreeHeldMemory();
  streams_.ServeReadWaiters();
  // Other connections of the device give memory back without telling.
  if (!shared_.lines.memory.empty() || !shared_.lines.turns.empty()) {
    SendWaiting();
  }
}

absl::Time ServerCalls::NextTick() const {
  if (!connection().usable()) return admission_.deadline();
  // The guard names the earliest end of a wait. Memory and credentials are
  // looked at more often while something depends on them.
  absl::Time next = stalls_.NextTick();
  const absl::Time now = connection().poller().now();
  if (!shared_.lines.memory.empty() || streams_.has_read_waiters()) {
    next = std::min(next, now + kMemoryRetry);
  }
  if (admission_.revocable()) next = std::min(next, now + kWithdrawalLook);
  return next;
}

void ServerCalls::FreeHeldMemory() {
  if (!shared_.memory.TakeShortage()) return;
  const ServerLines& lines = shared_.lines;
  for (const base::IntrusiveList<ServerCall>* line :
       {&lines.leases, &lines.frames, &lines.memory, &lines.turns}) {
    for (ServerCall* call = line->front(); call != nullptr;
         call = line->Next(call)) {
      if (!shared_.memory.MoveOut(&call->request().attachment) ||
          !shared_.memory.MoveOut(&call->reply().content.attachment)) {
        break;  // No memory: the Buffers stay.
      }
    }
  }
  shared_.slots.VisitOpen([this](ServerCall* call) {
    if (call->stream() != nullptr) {
      call->stream()->LeavePool(connection().memory().pool());
    }
  });
}

// --- ServerCall, as far as it needs its connection ---

const std::string& ServerCall::peer() const {
  return calls_.connection().peer();
}

const std::string& ServerCall::device_name() const {
  return calls_.connection().device().name();
}

const std::shared_ptr<const AuthContext>& ServerCall::auth_context() const {
  return calls_.admission().auth_context();
}

Poller& ServerCall::poller() const { return calls_.connection().poller(); }

bool ServerCall::PostShort(ShortTask* task) {
  const bool takes = calls_.threads().TakesTask();
  if (ABSL_PREDICT_TRUE(takes)) calls_.threads().Post(task);
  return takes;
}

Buffer ServerCall::AllocateAttachment(size_t bytes) const {
  Buffer registered = calls_.memory().AllocateOrNone(bytes);
  return registered.empty() ? Buffer::Plain(bytes) : std::move(registered);
}

Buffer ServerCall::AllocatePart(size_t bytes) const {
  Buffer registered = calls_.memory().AllocateOrNone(bytes);
  return registered.empty() ? Buffer::PlainIfAny(bytes) : std::move(registered);
}

absl::StatusOr<Buffer> ServerCall::AllocateReply(size_t bytes) {
  if (bytes > reply_.lease_bytes) {
    // A reply that held memory while it waits for a lease could deadlock
    // with requests. Nobody reads the text, and a text would be allocated.
    return absl::UnavailableError("");
  }
  return calls_.memory().Allocate(bytes);
}

uint32_t ServerCall::client_max_metadata_bytes() const {
  return calls_.connection().peer_limits().max_metadata_bytes;
}

absl::Status ServerCall::CheckMetadata(absl::string_view kind,
                                       uint64_t bytes) const {
  return calls_.metadata().Check(kind, bytes);
}

void ServerCall::SendInitialMetadata(std::string metadata) {
  calls_.metadata().QueueInitial(this, std::move(metadata));
}

absl::Status ServerCall::CheckReply(const Reply& reply) const {
  return calls_.replies().Check(reply);
}

}  // namespace verbena::transport
