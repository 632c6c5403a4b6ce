#include "transport/server/server_poller.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/base/limits.h"
#include "transport/base/log.h"
#include "transport/base/status_macros.h"
#include "transport/polling/posted_function.h"

namespace verbena::transport {
namespace {

// How often a poller that is stopping looks whether it is done: handlers end
// calls without telling.
constexpr absl::Duration kStopInterval = absl::Milliseconds(1);

// Polls without a find between two looks at the clock. They take a few
// microseconds, about as long as a peer that polls too takes to answer.
constexpr uint32_t kIdlePolls = 64;

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()),
                             text.size());
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerPoller>> ServerPoller::Start(
    const EndpointOptions& options, ServerHandler& handler) {
  ASSIGN_OR_RETURN(std::unique_ptr<Poller> poller, Poller::Create());
  std::unique_ptr<ServerPoller> server =
      absl::WrapUnique(new ServerPoller(options, handler, std::move(poller)));
  server->poller_->Add(server.get());
  absl::Status started = server->threads_.Start();
  if (!started.ok()) {
    server->poller_->Remove(server.get());
    return started;
  }
  return server;
}

absl::StatusOr<std::unique_ptr<ServerPoller>> ServerPoller::StartStepped(
    const EndpointOptions& options, ServerHandler& handler) {
  ASSIGN_OR_RETURN(std::unique_ptr<Poller> poller, Poller::Create());
  std::unique_ptr<ServerPoller> server =
      absl::WrapUnique(new ServerPoller(options, handler, std::move(poller)));
  server->poller_->Enter();
  server->poller_->Add(server.get());
  return server;
}

ServerPoller::ServerPoller(const EndpointOptions& options,
                           ServerHandler& handler,
                           std::unique_ptr<Poller> poller)
    : options_(options),
      handler_(handler),
      poller_(std::move(poller)),
      spin_(options.spin_budget),
      threads_("verbena-server", &poller_->ownership(), [this] { Drive(); }) {}

ServerPoller::~ServerPoller() = default;

void ServerPoller::Accept(IncomingConnection incoming) {
  // Relaxed: load() may be a moment old.
  incoming_.fetch_add(1, std::memory_order_relaxed);
  PostFunction(*poller_, [this, incoming = std::move(incoming)]() mutable {
    if (stop_.begun) return AcceptHere(std::move(incoming));
    waiting_.push_back(std::move(incoming));
    // The first one posts AcceptNext(), which posts itself for the others.
    if (waiting_.size() == 1) PostFunction(*poller_, [this] { AcceptNext(); });
  });
}

// Accepting a client takes as long as a hundred calls. One a round lets calls
// be served amid a crowd, and gives the places of clients that have gone to
// others.
void ServerPoller::AcceptNext() {
  if (waiting_.empty()) return;  // All were refused.
  IncomingConnection incoming = std::move(waiting_.front());
  waiting_.pop_front();
  AcceptHere(std::move(incoming));
  if (!waiting_.empty()) PostFunction(*poller_, [this] { AcceptNext(); });
}

void ServerPoller::Stop(absl::Time deadline) {
  PostFunction(*poller_, [this, deadline] { StopHere(deadline); });
}

// Polls, and runs short tasks between two rounds, until spinning does not pay;
// then sleeps. If another thread takes over during a task, returns at once: the
// poller is no longer this thread's.
void ServerPoller::Drive() {
  poller_->RefreshNow();
  SpinPolicy::Wait wait(&spin_);
  uint32_t idle_polls = 0;
  while (!AllClosed()) {
    int handled = poller_->PollOnce();
    if (ABSL_PREDICT_FALSE(!threads_.empty())) {
      if (!threads_.RunTasks()) return;
      ++handled;
    }
    if (handled > 0) {
      wait.Found();
      idle_polls = 0;
      continue;
    }
    if (++idle_polls % kIdlePolls != 0 && spin_.spins()) continue;
    if (wait.Look(base::Now(), poller_->TransferTime())) continue;
    // Nothing is lent while the owner sleeps, so the standby may sleep, too.
    threads_.NoteSleep();
    if (poller_->PrepareSleep()) {
      // The last poll before the sleep may have posted a short task.
      poller_->WaitForEvent(threads_.empty() ? absl::InfiniteFuture()
                                             : absl::InfinitePast());
    }
    wait.Woke(base::Now());
    idle_polls = 0;
  }
  End();
}

bool ServerPoller::Step() {
  CHECK(!stop_.ended);
  bool busy = poller_->Step();
  if (!threads_.empty()) busy = threads_.RunTasks() || busy;
  if (AllClosed()) End();
  return busy;
}

void ServerPoller::End() {
  for (const Device& each : devices_) poller_->Remove(each.device.get());
  devices_.clear();
  for (auto& [provider, watcher] : watchers_) poller_->Remove(watcher.get());
  watchers_.clear();
  poller_->Remove(this);
  // Connections that were handed over too late are refused.
  poller_->PollOnce();
  threads_.End();
  stop_.ended = true;
  poller_->Leave();
}

void ServerPoller::AcceptHere(IncomingConnection incoming) {
  incoming_.fetch_sub(1, std::memory_order_relaxed);
  const absl::Status status =
      stop_.begun ? absl::UnavailableError("the server is shutting down")
                  : TryAccept(incoming);
  if (status.ok()) return;
  refused_.Add();
  const std::string text =
      absl::StrCat("a client was refused: ", status.message());
  if (absl::IsResourceExhausted(status)) {
    refusal_.Say(text);
  } else {
    base::Log::OfProcess().Write(LogSeverity::kInfo, text);
  }
  const Reject reject = {
      stop_.begun ? RejectReason::kShuttingDown : RejectReason::kFull,
      std::string(status.message())};
  // The client may be gone already, and then there is nobody to tell.
  incoming.id.Reject(Bytes(EncodeReject(reject))).IgnoreError();
}

// Takes device, reservation and queue pair first, because the id can be
// rejected with a reason only as long as it is not the Connection's.
absl::Status ServerPoller::TryAccept(IncomingConnection& incoming) {
  const Provider& provider = *incoming.provider;
  ASSIGN_OR_RETURN(CmWatcher * watcher, WatcherFor(provider));
  // Further events of the id, a disconnect among them, come to this poller.
  RETURN_IF_ERROR(incoming.id.MigrateTo(watcher->channel()));
  ASSIGN_OR_RETURN(PollerDevice * device, DeviceFor(provider, incoming.id));
  EndOldestUnadmitted(*device, incoming.id.PeerAddress());
  MemoryDomain& memory = device->shared_memory();
  RETURN_IF_ERROR(device->Reserve(memory));
  absl::StatusOr<PollerDevice::QueuePair> queue_pair =
      device->MakeQueuePair(incoming.id, memory);
  if (!queue_pair.ok()) {
    device->Release(memory);
    return queue_pair.status();
  }
  auto calls = std::make_unique<ServerCalls>(
      *poller_, threads_, *device, std::move(incoming.id),
      *std::move(queue_pair), options_, incoming.request,
      std::move(incoming.terms), handler_);
  Connection& connection = calls->connection();
  watcher->Watch(connection.id(), &connection);
  poller_->LookOften();

  // Kernels before 5.1 do not know it.
  connection.id().SetAckTimeout(kAckTimeout).IgnoreError();
  const std::string reply =
      EncodeConnectReply({.limits = Connection::OwnLimits(options_),
                          .version = VersionFor(incoming.request)});
  ConnectionParameters parameters;
  parameters.private_data = Bytes(reply);
  // No more READs at once than the client's device answers and this one makes.
  parameters.initiator_depth =
      std::min(incoming.initiator_depth, device->limits().reads_made);
  parameters.retry_count = kAckRetries;
  parameters.rnr_retry_count = kRnrRetries;
  absl::Status status = connection.id().Accept(parameters);
  if (status.ok()) status = calls->Begin();
  // The client sees the connection end; there is no id left to reject.
  if (!status.ok()) connection.Close(status);
  if (status.ok() && base::Log::OfProcess().Wants(LogSeverity::kInfo)) {
    base::Log::OfProcess().Write(
        LogSeverity::kInfo,
        absl::StrCat("a client connects: ", connection.peer(), ", on ",
                     device->name()));
  }
  connections_.push_back(std::move(calls));
  connection_count_.store(static_cast<uint32_t>(connections_.size()),
                          std::memory_order_relaxed);
  return absl::OkStatus();
}

// The client that comes is refused, and finds a place when it tries again.
// connections_ are in the order in which they came.
// kEndedTogether in limits.h says why half of the places, and a quarter for
// one address.
void ServerPoller::EndOldestUnadmitted(const PollerDevice& device,
                                       const base::SocketAddress& peer) {
  if (device.has_room()) return;
  uint32_t count = 0;
  uint32_t count_of_address = 0;
  std::vector<Connection*> oldest, oldest_of_address;
  for (const std::unique_ptr<ServerCalls>& calls : connections_) {
    Connection& connection = calls->connection();
    if (connection.state() != ConnectionState::kConnecting ||
        &connection.device() != &device) {
      continue;
    }
    if (count++ < kEndedTogether) oldest.push_back(&connection);
    if (!connection.id().PeerAddress().SharesNetworkWith(peer)) continue;
    if (count_of_address++ < kEndedTogether) {
      oldest_of_address.push_back(&connection);
    }
  }
  const bool many_of_address =
      count_of_address >=
      std::max(kLeastUnadmitted, device.max_connections() / 4);
  if (!many_of_address &&
      count < std::max(kLeastUnadmitted, device.max_connections() / 2)) {
    return;
  }
  const std::string text = absl::StrCat(
      "the connection was closed to make room for other clients: ",
      many_of_address ? count_of_address : count, " clients",
      many_of_address ? " of this address" : "",
      " have not finished the handshake, and this one is among the oldest");
  for (Connection* ended : many_of_address ? oldest_of_address : oldest) {
    unadmitted_.Say(absl::StrCat(ended->peer(), ": ", text));
    ended->Close(absl::UnavailableError(text));
  }
}

absl::StatusOr<CmWatcher*> ServerPoller::WatcherFor(const Provider& provider) {
  std::unique_ptr<CmWatcher>& watcher = watchers_[&provider];
  if (watcher == nullptr) {
    absl::StatusOr<EventChannel> channel = EventChannel::Create(provider);
    if (!channel.ok()) {
      // The look-up has made an entry, which must not stay null.
      watchers_.erase(&provider);
      return channel.status();
    }
    watcher = std::make_unique<CmWatcher>(*std::move(channel));
    poller_->Add(watcher.get());
  }
  return watcher.get();
}

// Makes a device, with the memory that its connections share, when the first
// client comes through it.
absl::StatusOr<PollerDevice*> ServerPoller::DeviceFor(const Provider& provider,
                                                      const CmId& id) {
  ibv_context* const context = id.context();
  // A device that has failed or was removed stays for the connections it has,
  // but gets no new ones.
  for (const Device& each : devices_) {
    PollerDevice* const device = each.device.get();
    if (device->context() == context && !device->broken() &&
        !device->retired()) {
      return device;
    }
  }
  ASSIGN_OR_RETURN(CmWatcher * watcher, WatcherFor(provider));
  PollerDevice::Options options;
  options.max_connections = kMaxConnectionsPerPoller;
  BufferPool::Options& pool = options.shared_pool.emplace();
  // No peer ever gets a key to this memory.
  pool.access = IBV_ACCESS_LOCAL_WRITE;
  pool.first_region_bytes = kFirstBulkRegionBytes;
  pool.max_bytes = options_.max_bulk_bytes;
  pool.max_regions = UINT16_MAX;
  pool.largest_bytes = options_.max_receive_message_bytes;
  pool.floor_bytes = options_.memory_floor_bytes;
  pool.idle_time = options_.memory_idle_time;
  ASSIGN_OR_RETURN(std::unique_ptr<PollerDevice> device,
                   PollerDevice::Create(provider, context, options));
  PollerDevice* const raw = device.get();
  poller_->Add(raw);
  devices_.push_back(
      {std::move(device),
       std::make_unique<MemoryGauges>(poller_->counters().Device(raw->name())),
       RemovalWatch::Create(*watcher, *raw, id.LocalAddress())});
  return raw;
}

// Refuses the clients that wait, then asks the others for no more calls. Open
// calls go on until Tick() finds all done or the deadline passed.
void ServerPoller::StopHere(absl::Time deadline) {
  stop_.begun = true;
  for (IncomingConnection& incoming : std::exchange(waiting_, {})) {
    AcceptHere(std::move(incoming));
  }
  stop_.deadline = deadline;
  stop_.refuse_time = base::Now() + options_.keepalive_timeout;
  for (const auto& calls : connections_) calls->connection().SendGoAway();
}

// A queue pair that is closed drops what its device has not sent, and REQUESTs
// that nobody has read: the last RESPONSEs must have arrived, and the clients'
// last words have come.
bool ServerPoller::Drained() const {
  return std::all_of(
      connections_.begin(), connections_.end(),
      [](const std::unique_ptr<ServerCalls>& calls) {
        const Connection& connection = calls->connection();
        const bool open = connection.state() <= ConnectionState::kOpen;
        return calls->open_calls() == 0 &&
               (!open || (!calls->takes_calls() && connection.sends_done()));
      });
}

// Moves a stop to its next step, destroys what has closed, and gives idle
// memory back.
void ServerPoller::Tick(absl::Time now) {
  if (now >= stop_.refuse_time) {
    for (const auto& calls : connections_) calls->RefuseCalls();
  }
  if (stop_.begun && !stop_.closing && (Drained() || now >= stop_.deadline)) {
    stop_.closing = true;
    for (const auto& calls : connections_) {
      calls->connection().Close(absl::UnavailableError("the server shut down"));
    }
  }
  Reap();
  DropFinished();
  handler_tick_ = handler_.OnTick();
  uint64_t frame_bytes = 0;
  uint64_t bulk_bytes = 0;
  for (const Device& each : devices_) {
    MemoryDomain& memory = each.device->shared_memory();
    BufferPool& pool = memory.pool();
    // Only one region a tick, because calls wait meanwhile. No peer knows
    // of it.
    if (pool.FindIdle(now)) pool.TakeIdle();
    frame_bytes += memory.frame_bytes();
    bulk_bytes += pool.registered_bytes();
    each.gauges->Update(memory);
  }
  // Relaxed: other threads only show the numbers, which may be a moment old.
  frame_bytes_.store(frame_bytes, std::memory_order_relaxed);
  bulk_bytes_.store(bulk_bytes, std::memory_order_relaxed);
}

bool ServerPoller::AnyClosed() const {
  return std::any_of(devices_.begin(), devices_.end(), [](const Device& each) {
    return each.device->any_closed();
  });
}

// Looks at the connections only if a device has seen one close, because there
// may be a thousand.
void ServerPoller::Reap() {
  if (!AnyClosed()) return;
  const auto closed = [this](const std::unique_ptr<ServerCalls>& calls) {
    if (!calls->connection().closed()) return false;
    const absl::Status& reason = calls->connection().failure();
    // Why a client is refused does not name it, for the client reads it, too.
    const std::string& peer = calls->connection().peer();
    const std::string text = absl::StrContains(reason.message(), peer)
                                 ? std::string(reason.message())
                                 : absl::StrCat(peer, ": ", reason.message());
    if (absl::IsDeadlineExceeded(reason) || absl::IsDataLoss(reason)) {
      lost_.Say(text);
    } else {
      base::Log::OfProcess().Write(LogSeverity::kInfo, text);
    }
    for (auto& [provider, watcher] : watchers_) {
      // An event must not find a handler that is destroyed next.
      watcher->Unwatch(calls->connection().id());
    }
    return true;
  };
  connections_.erase(
      std::remove_if(connections_.begin(), connections_.end(), closed),
      connections_.end());
  for (const Device& each : devices_) each.device->set_any_closed(false);
  connection_count_.store(static_cast<uint32_t>(connections_.size()),
                          std::memory_order_relaxed);
}

void ServerPoller::DropFinished() {
  std::erase_if(devices_, [this](const Device& each) {
    if (!each.device->finished()) return false;
    poller_->Remove(each.device.get());
    return true;
  });
}

absl::Time ServerPoller::NextTick() const {
  // A connection that closed after this poller's own tick waits to be reaped.
  if (AnyClosed()) return poller_->now();
  const absl::Time soon = poller_->now() + kStopInterval;
  if (stop_.begun) return soon;
  absl::Time next = handler_tick_;
  for (const Device& each : devices_) {
    next = std::min(
        next, std::max(each.device->shared_memory().pool().NextLook(), soon));
  }
  return next;
}

}  // namespace verbena::transport
