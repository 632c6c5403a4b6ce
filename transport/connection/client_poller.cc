#include "transport/connection/client_poller.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/memory/memory.h"
#include "transport/base/check.h"
#include "transport/base/status_macros.h"

namespace verbena::transport {
namespace {

// How many connections the queues have room for that are made for a device
// first, next, and from then on: few connections cost little, and each poll
// looks at few queues. More would not fit the completion queues of small
// devices.
constexpr uint32_t kDeviceSizes[] = {4, 32, 256};

}  // namespace

absl::StatusOr<std::unique_ptr<ClientPoller>> ClientPoller::Create() {
  ASSIGN_OR_RETURN(std::unique_ptr<Poller> poller, Poller::Create());
  return absl::WrapUnique(new ClientPoller(std::move(poller)));
}

ClientPoller::ClientPoller(std::unique_ptr<Poller> poller)
    : poller_(std::move(poller)) {
  poller_->Add(this);
}

ClientPoller::~ClientPoller() {
  poller_->Enter();
  poller_->PollUntil([this] { return closing_.empty(); },
                     absl::InfiniteFuture());
  CHECK(connecting_.empty());
  for (const Device& device : devices_) poller_->Remove(device.device.get());
  devices_.clear();
  for (const auto& [provider, watcher] : watchers_) {
    poller_->Remove(watcher.get());
  }
  watchers_.clear();
  poller_->Remove(this);
  poller_->Leave();
}

std::unique_ptr<ClientConnection> ClientPoller::Connect(
    const Provider& provider, const base::SocketAddress& address,
    const EndpointOptions& options, ClientConnection::Observer* observer) {
  std::unique_ptr<ClientConnection> connection = absl::WrapUnique(
      new ClientConnection(*this, provider, address, options, observer));
  connecting_.push_back(connection.get());
  connection->Begin();
  return connection;
}

void ClientPoller::Close(std::unique_ptr<ClientConnection> connection) {
  connection->Close();
  closing_.push_back(std::move(connection));
}

absl::StatusOr<CmWatcher*> ClientPoller::WatcherFor(const Provider& provider) {
  const auto found = watchers_.find(&provider);
  if (found != watchers_.end()) return found->second.get();
  ASSIGN_OR_RETURN(EventChannel channel, EventChannel::Create(provider));
  auto watcher = std::make_unique<CmWatcher>(std::move(channel));
  CmWatcher* const raw = watcher.get();
  poller_->Add(raw);
  watchers_[&provider] = std::move(watcher);
  return raw;
}

absl::StatusOr<PollerDevice*> ClientPoller::DeviceFor(const Provider& provider,
                                                      ibv_context* context) {
  size_t full = 0;
  for (const Device& device : devices_) {
    if (device.context != context) continue;
    if (device.device->has_room()) return device.device.get();
    ++full;
  }
  PollerDevice::Options options;
  options.max_connections =
      kDeviceSizes[std::min(full, std::size(kDeviceSizes) - 1)];
  ASSIGN_OR_RETURN(std::unique_ptr<PollerDevice> device,
                   PollerDevice::Create(provider, context, options));
  PollerDevice* const raw = device.get();
  poller_->Add(raw);
  devices_.push_back({context, std::move(device)});
  return raw;
}

void ClientPoller::Settle(ClientConnection* connection) {
  std::erase(connecting_, connection);
}

void ClientPoller::Tick(absl::Time now) {
  for (size_t i = 0; i < connecting_.size();) {
    ClientConnection* const connection = connecting_[i];
    connection->CheckDeadline(now);
    // A connection that gives up leaves the list, and its place to another.
    if (i < connecting_.size() && connecting_[i] == connection) ++i;
  }
  Reap();
}

void ClientPoller::Reap() {
  std::erase_if(closing_,
                [](const std::unique_ptr<ClientConnection>& connection) {
                  return connection->closed();
                });
}

absl::Time ClientPoller::NextTick() const {
  absl::Time next = absl::InfiniteFuture();
  for (const ClientConnection* connection : connecting_) {
    next = std::min(next, connection->deadline_);
  }
  // A connection that closed after this poller's own tick waits to be reaped.
  if (std::any_of(closing_.begin(), closing_.end(),
                  [](const std::unique_ptr<ClientConnection>& connection) {
                    return connection->closed();
                  })) {
    next = poller_->now();
  }
  return next;
}

}  // namespace verbena::transport
