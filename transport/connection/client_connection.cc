#include "transport/connection/client_connection.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/base/status_macros.h"
#include "transport/connection/client_poller.h"

namespace verbena::transport {

absl::StatusOr<std::unique_ptr<ClientConnection>> ClientConnection::Connect(
    const Provider& provider, const base::SocketAddress& address,
    const EndpointOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<ClientPoller> own, ClientPoller::Create());
  Poller& poller = own->poller();
  poller.Enter();
  std::unique_ptr<ClientConnection> connection =
      own->Connect(provider, address, options, /*observer=*/nullptr);
  poller.PollUntil([&connection] { return !connection->connecting(); },
                   absl::InfiniteFuture());
  absl::Status status = connection->failure();
  poller.Leave();
  connection->own_poller_ = std::move(own);
  if (!status.ok()) return status;
  return connection;
}

ClientConnection::ClientConnection(ClientPoller& client_poller,
                                   const Provider& provider,
                                   const base::SocketAddress& address,
                                   const EndpointOptions& options,
                                   Observer* observer)
    : client_poller_(client_poller),
      poller_(client_poller.poller()),
      provider_(provider),
      address_(address),
      options_(options),
      peer_(address.ToString()),
      deadline_(base::Now() + options.connect_timeout),
      observer_(observer) {}

ClientConnection::~ClientConnection() {
  if (own_poller_ != nullptr) {
    poller_.Enter();
    Close();
    // Bounded: a connection that is not drained in time counts as closed.
    poller_.PollUntil([this] { return closed(); }, absl::InfiniteFuture());
  }
  CHECK(closed()) << "a connection must be given to ClientPoller::Close()";
  if (calls_ != nullptr) {
    watcher_->Unwatch(calls_->connection().id());
    calls_.reset();
  }
  memory_.reset();
  if (own_poller_ != nullptr) poller_.Leave();
}

void ClientConnection::Close() {
  observer_ = nullptr;
  Fail(absl::UnavailableError(
      absl::StrCat("the connection with ", peer_, " was closed")));
  // A thread that sleeps looks anew until when.
  NoteChange();
}

void ClientConnection::Fail(const absl::Status& reason) {
  if (calls_ != nullptr) return calls_->connection().Close(reason);
  if (failed()) return;
  failure_ = reason;
  if (id_.has_value()) {
    watcher_->Unwatch(*id_);
    id_.reset();
  }
  NoteChange();
}

void ClientConnection::NoteChange() {
  if (!connecting() && step_ != Step::kNothing) {
    step_ = Step::kNothing;
    client_poller_.Settle(this);
  }
  if (std::exchange(notice_posted_, true)) return;
  poller_.Post(&notice_);
}

void ClientConnection::Notify() {
  notice_posted_ = false;
  if (observer_ != nullptr && usable() && !told_connected_) {
    told_connected_ = true;
    observer_->OnConnected();
  }
  const bool lost = failed() && !told_failed_;
  const bool drains = draining() && !told_draining_;
  if (observer_ == nullptr || (!lost && !drains)) return;
  told_failed_ = failed();
  told_draining_ = draining();
  observer_->OnUnusable();
}

void ClientConnection::RefuseSlow(ClientCall* call) const {
  call->OnUnsent(failed() ? failure_
                          : absl::UnavailableError(
                                absl::StrCat("the connection with ", peer_,
                                             " is not established yet")));
}

}  // namespace verbena::transport
