#include "transport/client/client_poller.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/memory/memory.h"
#include "transport/base/check.h"
#include "transport/base/status_macros.h"

namespace verbena::transport {

absl::StatusOr<std::unique_ptr<ClientPoller>> ClientPoller::Create() {
  ASSIGN_OR_RETURN(std::unique_ptr<Poller> poller, Poller::Create());
  return absl::WrapUnique(new ClientPoller(std::move(poller)));
}

ClientPoller::ClientPoller(std::unique_ptr<Poller> poller)
    : poller_(std::move(poller)),
      devices_(std::make_unique<ClientDevices>(*poller_)) {
  poller_->Add(this);
}

// Polls until the closing connections have drained, because their devices must
// outlive them. Each has its own limits of time, so the wait ends.
ClientPoller::~ClientPoller() {
  poller_->Enter();
  poller_->PollUntil([this] { return closing_.empty(); },
                     absl::InfiniteFuture());
  ForgetSettled();
  CHECK(connecting_.empty());
  devices_.reset();
  poller_->Remove(this);
  poller_->Leave();
}

std::unique_ptr<ClientConnection> ClientPoller::Connect(
    const Provider& provider, const base::SocketAddress& address,
    const EndpointOptions& options, ClientConnection::Observer* observer) {
  auto connection = std::make_unique<ClientConnection>(
      *devices_, provider, address, options, observer);
  // Before Begin(), which may fail at once: ForgetSettled() takes it out then.
  connecting_.push_back(connection.get());
  connection->Begin();
  return connection;
}

// Closing settles the connection, so that connecting_ never has one that
// Reap() destroys.
void ClientPoller::Close(std::unique_ptr<ClientConnection> connection) {
  connection->Close();
  ForgetSettled();
  closing_.push_back(std::move(connection));
}

void ClientPoller::Tick(absl::Time now) {
  for (ClientConnection* connection : connecting_) {
    // A connection may have settled since the last tick without telling.
    if (!connection->settled()) connection->CheckDeadline(now);
  }
  ForgetSettled();
  Reap();
}

void ClientPoller::ForgetSettled() {
  std::erase_if(connecting_, [](const ClientConnection* connection) {
    return connection->settled();
  });
}

void ClientPoller::Reap() {
  std::erase_if(closing_,
                [](const std::unique_ptr<ClientConnection>& connection) {
                  return connection->closed();
                });
  devices_->DropFinished();
}

absl::Time ClientPoller::NextTick() const {
  absl::Time next = absl::InfiniteFuture();
  for (const ClientConnection* connection : connecting_) {
    if (!connection->settled()) next = std::min(next, connection->deadline());
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
