#include "transport/connection/client_connection.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/limits.h"
#include "transport/base/status_macros.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

// The kernel asks for a neighbour three times, a second apart, and then waits
// in silence until the time is over. Who asks again has it begin anew.
constexpr absl::Duration kResolveAttempt = absl::Seconds(1);

// The next event of `id` alone; `expected` is what the message names when none
// comes in time.
absl::StatusOr<CmEvent> NextEvent(CmWatcher& watcher, const CmId& id,
                                  rdma_cm_event_type expected,
                                  const std::string& peer,
                                  absl::Time deadline) {
  while (true) {
    ASSIGN_OR_RETURN(std::optional<CmEvent> event,
                     watcher.channel().WaitEvent(std::max(
                         deadline - absl::Now(), absl::ZeroDuration())));
    if (!event.has_value()) {
      if (absl::Now() < deadline) continue;
      return absl::UnavailableError(
          absl::StrCat("connecting to ", peer, " timed out while waiting for ",
                       CmEventName(expected)));
    }
    if (event->id == id.get()) return *event;
  }
}

// An id that knows the way to `address`.
absl::StatusOr<CmId> ResolveAddress(const Provider& provider,
                                    CmWatcher& watcher,
                                    const base::SocketAddress& address,
                                    const std::string& peer,
                                    absl::Time deadline) {
  while (true) {
    ASSIGN_OR_RETURN(CmId id, CmId::Create(provider, watcher.channel()));
    RETURN_IF_ERROR(id.ResolveAddr({}, address, kResolveAttempt));
    ASSIGN_OR_RETURN(
        const CmEvent event,
        NextEvent(watcher, id, RDMA_CM_EVENT_ADDR_RESOLVED, peer, deadline));
    if (event.type == RDMA_CM_EVENT_ADDR_RESOLVED) return id;
    const bool in_vain =
        event.type == RDMA_CM_EVENT_ADDR_ERROR && event.status == -ETIMEDOUT;
    if (in_vain && absl::Now() < deadline) continue;
    RETURN_IF_ERROR(CmEventStatus(event, peer));
  }
}

// Waits for the event that ends a step of connecting.
absl::StatusOr<CmEvent> AwaitStep(CmWatcher& watcher, const CmId& id,
                                  rdma_cm_event_type expected,
                                  const std::string& peer,
                                  absl::Time deadline) {
  while (true) {
    ASSIGN_OR_RETURN(const CmEvent event,
                     NextEvent(watcher, id, expected, peer, deadline));
    if (event.type == expected) return event;
    if (event.type == RDMA_CM_EVENT_REJECTED &&
        event.status == kRejectByApplication) {
      const absl::Span<const uint8_t> data = event.private_data();
      const absl::StatusOr<Reject> reject = DecodeReject(data);
      if (reject.ok()) return RejectStatus(*reject);
      // The connection manager answers so for a server that fails meanwhile,
      // and InfiniBand pads what it does not say.
      if (std::all_of(data.begin(), data.end(),
                      [](uint8_t byte) { return byte == 0; })) {
        return CmEventStatus(event, peer);
      }
      return absl::FailedPreconditionError(
          absl::StrCat(peer,
                       " refused the connection, but not as a Verbena "
                       "server does: ",
                       reject.status().message()));
    }
    RETURN_IF_ERROR(CmEventStatus(event, peer));
  }
}

absl::Status CheckDevice(const std::string& wanted, const std::string& found,
                         const std::string& peer) {
  if (wanted.empty() || wanted == found) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the route to ", peer, " goes through the device ", found,
                   ", not through ", wanted, " as was asked for"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClientConnection>> ClientConnection::Connect(
    const Provider& provider, const base::SocketAddress& address,
    const EndpointOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(std::unique_ptr<Poller> own_poller, Poller::Create());
  ASSIGN_OR_RETURN(EventChannel channel, EventChannel::Create(provider));
  Poller& poller = *own_poller;
  std::unique_ptr<ClientConnection> connection = absl::WrapUnique(
      new ClientConnection(std::move(own_poller), poller, std::move(channel)));
  poller.Enter();
  const absl::Status status = connection->Establish(provider, address, options);
  poller.Leave();
  if (!status.ok()) return status;
  return connection;
}

absl::StatusOr<std::unique_ptr<ClientConnection>> ClientConnection::ConnectOn(
    Poller& poller, const Provider& provider,
    const base::SocketAddress& address, const EndpointOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(EventChannel channel, EventChannel::Create(provider));
  std::unique_ptr<ClientConnection> connection = absl::WrapUnique(
      new ClientConnection(/*own_poller=*/nullptr, poller, std::move(channel)));
  RETURN_IF_ERROR(connection->Establish(provider, address, options));
  return connection;
}

ClientConnection::ClientConnection(std::unique_ptr<Poller> own_poller,
                                   Poller& poller, EventChannel channel)
    : own_poller_(std::move(own_poller)),
      poller_(poller),
      watcher_(std::move(channel)) {
  poller_.Add(&watcher_);
}

ClientConnection::~ClientConnection() {
  if (own_poller_ != nullptr) own_poller_->Enter();
  if (calls_ != nullptr) {
    Connection& connection = calls_->connection();
    connection.Close(absl::UnavailableError(
        absl::StrCat("the connection with ", peer(), " was closed")));
    // Bounded: a connection that is not drained in time counts as closed.
    poller_.PollUntil([&connection] { return connection.closed(); },
                      absl::InfiniteFuture());
    watcher_.Unwatch(&connection);
    calls_.reset();
  }
  if (device_ != nullptr) {
    poller_.Remove(device_.get());
    device_.reset();
  }
  poller_.Remove(&watcher_);
  if (own_poller_ != nullptr) own_poller_->Leave();
}

absl::Status ClientConnection::OpenDevice(const Provider& provider,
                                          const CmId& id,
                                          const EndpointOptions& options) {
  PollerDevice::Options device_options;
  device_options.max_connections = 1;
  device_options.pool.access =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  device_options.pool.first_region_bytes = kFirstArenaBytes;
  device_options.pool.max_bytes = options.max_arena_bytes;
  device_options.pool.max_regions = kMaxArenas;
  device_options.pool.largest_bytes = std::max(
      options.max_send_message_bytes, options.max_receive_message_bytes);
  device_options.pool.floor_bytes = options.memory_floor_bytes;
  device_options.pool.idle_time = options.memory_idle_time;
  ASSIGN_OR_RETURN(
      device_, PollerDevice::Create(provider, id.context(), device_options));
  poller_.Add(device_.get());
  return absl::OkStatus();
}

absl::Status ClientConnection::Establish(const Provider& provider,
                                         const base::SocketAddress& address,
                                         const EndpointOptions& options) {
  const absl::Time deadline = absl::Now() + options.connect_timeout;
  const std::string peer = address.ToString();
  ASSIGN_OR_RETURN(CmId id,
                   ResolveAddress(provider, watcher_, address, peer, deadline));
  RETURN_IF_ERROR(
      CheckDevice(options.device,
                  provider.verbs.get_device_name(id.context()->device), peer));
  RETURN_IF_ERROR(id.ResolveRoute(options.connect_timeout));
  RETURN_IF_ERROR(
      AwaitStep(watcher_, id, RDMA_CM_EVENT_ROUTE_RESOLVED, peer, deadline)
          .status());

  RETURN_IF_ERROR(OpenDevice(provider, id, options));
  RETURN_IF_ERROR(device_->Reserve());
  ibv_qp_init_attr attributes = device_->QpAttributes();
  if (absl::Status status = id.CreateQp(device_->pd().get(), &attributes);
      !status.ok()) {
    device_->Release();
    return status;
  }
  calls_ =
      std::make_unique<ClientCalls>(poller_, *device_, std::move(id),
                                    attributes.cap.max_inline_data, options);
  Connection& connection = calls_->connection();
  watcher_.Watch(&connection);

  const BufferPool::Region arena = device_->pool().region(0);
  const std::string hello =
      EncodeConnectRequest({Connection::OwnLimits(options),
                            {arena.address, arena.bytes, arena.rkey}});
  ConnectionParameters parameters;
  parameters.private_data = absl::MakeConstSpan(
      reinterpret_cast<const uint8_t*>(hello.data()), hello.size());
  parameters.responder_resources = kReadDepth;
  parameters.rnr_retry_count = kRnrRetries;
  RETURN_IF_ERROR(connection.Connect(parameters));
  ASSIGN_OR_RETURN(const CmEvent established,
                   AwaitStep(watcher_, connection.id(),
                             RDMA_CM_EVENT_ESTABLISHED, peer, deadline));
  ASSIGN_OR_RETURN(const ConnectReply reply,
                   DecodeConnectReply(established.private_data()));
  RETURN_IF_ERROR(calls_->Begin(reply));
  return WaitForWelcome(deadline);
}

absl::Status ClientConnection::WaitForWelcome(absl::Time deadline) {
  const auto answered = [this] {
    return calls_->connection().state() != ConnectionState::kConnecting;
  };
  poller_.PollUntil(answered, deadline);
  if (answered()) return calls_->connection().failure();
  return absl::UnavailableError(absl::StrCat(
      peer(), " accepted the connection but did not answer the HELLO"));
}

}  // namespace verbena::transport
