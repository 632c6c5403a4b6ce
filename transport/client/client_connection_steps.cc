// ClientConnection: from an address to a connection that takes calls.

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/clock.h"
#include "transport/base/limits.h"
#include "transport/base/status_macros.h"
#include "transport/client/client_connection.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

// The kernel asks for a neighbour three times, a second apart, and then waits
// in silence until the time is over. Who asks again has it begin anew.
constexpr absl::Duration kResolveAttempt = absl::Seconds(1);

absl::Status CheckRoute(const std::string& wanted, const std::string& found,
                        const std::string& peer) {
  if (wanted.empty() || wanted == found) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the route to ", peer, " goes through the device ", found,
                   ", not through ", wanted,
                   ", which the option device or VERBENA_DEVICE names"));
}

BufferPool::Options ArenaOptions(const EndpointOptions& options) {
  BufferPool::Options pool;
  // Without its own right to write, what is lent is lent through windows.
  pool.access =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
      (options.revoke_leases ? IBV_ACCESS_MW_BIND : IBV_ACCESS_REMOTE_WRITE);
  pool.first_region_bytes = kFirstArenaBytes;
  pool.max_bytes = options.max_arena_bytes;
  pool.max_regions = kMaxArenas;
  pool.largest_bytes = std::max(options.max_send_message_bytes,
                                options.max_receive_message_bytes);
  pool.floor_bytes = options.memory_floor_bytes;
  pool.idle_time = options.memory_idle_time;
  return pool;
}

}  // namespace

void ClientConnection::Begin() {
  absl::Status status = CheckOptions(options_);
  if (status.ok()) status = ResolveAddress();
  if (!status.ok()) return Fail(status);
  // A thread that sleeps looks anew until when.
  NoteChange();
}

// Begins with a new id each time: an id that has failed to resolve is not
// used again.
absl::Status ClientConnection::ResolveAddress() {
  ASSIGN_OR_RETURN(watcher_, devices_.WatcherFor(provider_));
  if (id_.has_value()) watcher_->Unwatch(*id_);
  ASSIGN_OR_RETURN(id_, CmId::Create(provider_, watcher_->channel()));
  watcher_->Watch(*id_, this);
  // Kernels before 5.1 do not know it.
  id_->SetAckTimeout(kAckTimeout).IgnoreError();
  if (options_.dscp >= 0) {
    RETURN_IF_ERROR(id_->SetTrafficClass(TrafficClass(options_.dscp)));
  }
  // The answer comes by a descriptor, which the poller may look at seldom
  // by now.
  poller_.LookOften();
  return id_->ResolveAddr({}, address_,
                          std::min(kResolveAttempt, deadline_ - base::Now()));
}

void ClientConnection::OnCmEvent(const CmEvent& event) {
  // An event that comes too late does not count, even if it says that the
  // server has given up.
  if (step_ != Step::kNothing) CheckDeadline(base::Now());
  // From the server's answer on, events are about a connection that has its
  // own steps.
  if (step_ == Step::kWelcome || step_ == Step::kNothing) {
    if (calls_ != nullptr) calls_->connection().OnCmEvent(event);
    return;
  }
  if (absl::Status status = Advance(event); !status.ok()) Fail(status);
}

absl::Status ClientConnection::Advance(const CmEvent& event) {
  if (step_ == Step::kAddress) return OnAddress(event);
  const rdma_cm_event_type awaited = step_ == Step::kRoute
                                         ? RDMA_CM_EVENT_ROUTE_RESOLVED
                                         : RDMA_CM_EVENT_ESTABLISHED;
  // Failure() returns OK if the event is neither awaited nor a failure.
  if (event.type != awaited) return Failure(event);
  return step_ == Step::kRoute ? OnRoute() : OnAnswer(event);
}

absl::Status ClientConnection::OnAddress(const CmEvent& event) {
  if (event.type != RDMA_CM_EVENT_ADDR_RESOLVED) {
    // The kernel has asked for the neighbour in vain: while there is time, it
    // is made to ask again.
    const bool in_vain =
        event.type == RDMA_CM_EVENT_ADDR_ERROR && event.status == -ETIMEDOUT;
    return in_vain && base::Now() < deadline_ ? ResolveAddress()
                                              : Failure(event);
  }
  RETURN_IF_ERROR(CheckRoute(
      options_.device, provider_.verbs.get_device_name(id_->context()->device),
      peer_));
  step_ = Step::kRoute;
  return id_->ResolveRoute(deadline_ - base::Now());
}

// Makes queue pair and memory before it connects, because the request's private
// data name the first arena and its key.
absl::Status ClientConnection::OnRoute() {
  RETURN_IF_ERROR(MakeConnection());
  step_ = Step::kAccept;
  const std::string hello = EncodeConnectRequest(Request());
  ConnectionParameters parameters;
  parameters.private_data = absl::MakeConstSpan(
      reinterpret_cast<const uint8_t*>(hello.data()), hello.size());
  parameters.responder_resources = device_->limits().reads_answered;
  parameters.retry_count = kAckRetries;
  parameters.rnr_retry_count = kRnrRetries;
  absl::Status status = calls_->connection().id().Connect(parameters);
  // iWARP connects a socket in there, and learns at once that nobody listens.
  if (!status.ok() && errno == ECONNREFUSED) {
    CmEvent refused;
    refused.type = RDMA_CM_EVENT_REJECTED;
    refused.status = -ECONNREFUSED;
    return Failure(refused);
  }
  return status;
}

// Takes device, memory, reservation and queue pair in the order of their
// dependence. If one fails, no member is set.
absl::Status ClientConnection::MakeConnection() {
  ASSIGN_OR_RETURN(PollerDevice * device, devices_.DeviceFor(provider_, *id_));
  ASSIGN_OR_RETURN(std::unique_ptr<MemoryDomain> memory,
                   device->MakeMemory(ArenaOptions(options_)));
  RETURN_IF_ERROR(device->Reserve(*memory));
  absl::StatusOr<PollerDevice::QueuePair> queue_pair =
      device->MakeQueuePair(*id_, *memory);
  if (!queue_pair.ok()) {
    // A Connection would give the reservation back, but there is none yet.
    device->Release(*memory);
    return queue_pair.status();
  }
  device_ = device;
  memory_ = std::move(memory);
  calls_ = std::make_unique<ClientCalls>(
      poller_, *device, *memory_, *std::exchange(id_, std::nullopt),
      *std::move(queue_pair), options_, [this] { NoteChange(); });
  return options_.revoke_leases ? calls_->LendThroughWindows()
                                : absl::OkStatus();
}

// The first region stays as long as the pool.
ConnectRequest ClientConnection::Request() const {
  const BufferPool::Region arena = memory_->pool().region(0);
  return {Connection::OwnLimits(options_),
          {arena.address, arena.bytes, arena.rkey}};
}

absl::Status ClientConnection::OnAnswer(const CmEvent& event) {
  ASSIGN_OR_RETURN(const ConnectReply reply,
                   DecodeConnectReply(event.private_data()));
  // Before OnCmEvent(), so that the connection handles all further
  // events itself.
  step_ = Step::kWelcome;
  calls_->connection().OnCmEvent(event);
  return calls_->Begin(Request(), reply);
}

// Tells a refusal by a Verbena server, whose private data say why, from one by
// the connection manager or by another program.
absl::Status ClientConnection::Failure(const CmEvent& event) {
  found_nobody_ =
      event.type == RDMA_CM_EVENT_REJECTED &&
      (event.status == kRejectNobodyListens || event.status == -ECONNREFUSED);
  if (event.type != RDMA_CM_EVENT_REJECTED ||
      !IsRejectByApplication(event.status)) {
    return CmEventStatus(event, peer_);
  }
  const absl::Span<const uint8_t> data = event.private_data();
  const absl::StatusOr<Reject> reject = DecodeReject(data);
  if (reject.ok()) {
    server_leaves_ = reject->reason == RejectReason::kShuttingDown;
    return RejectStatus(*reject);
  }
  // The connection manager answers so for a server that fails meanwhile, and
  // InfiniBand pads what it does not say.
  if (std::all_of(data.begin(), data.end(),
                  [](uint8_t byte) { return byte == 0; })) {
    return CmEventStatus(event, peer_);
  }
  return absl::FailedPreconditionError(
      absl::StrCat(peer_,
                   " refused the connection, but not as a Verbena server "
                   "does: ",
                   reject.status().message()));
}

// Fails with the event that was missing, so that a user knows how far the
// connection came.
void ClientConnection::CheckDeadline(absl::Time now) {
  if (now < deadline_) return;
  if (step_ == Step::kWelcome) {
    return Fail(absl::UnavailableError(absl::StrCat(
        peer_, " accepted the connection but did not answer the HELLO")));
  }
  const rdma_cm_event_type awaited =
      step_ == Step::kAddress ? RDMA_CM_EVENT_ADDR_RESOLVED
      : step_ == Step::kRoute ? RDMA_CM_EVENT_ROUTE_RESOLVED
                              : RDMA_CM_EVENT_ESTABLISHED;
  Fail(absl::UnavailableError(absl::StrCat("connecting to ", peer_,
                                           " timed out while waiting for ",
                                           CmEventName(awaited))));
}

}  // namespace verbena::transport
