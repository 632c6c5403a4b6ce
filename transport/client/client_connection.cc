#include "transport/client/client_connection.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"

namespace verbena::transport {

ClientConnection::ClientConnection(ClientDevices& devices,
                                   const Provider& provider,
                                   const base::SocketAddress& address,
                                   const EndpointOptions& options,
                                   Observer* observer)
    : devices_(devices),
      poller_(devices.poller()),
      provider_(provider),
      address_(address),
      options_(options),
      peer_(address.ToString()),
      deadline_(base::Now() + options.connect_timeout),
      observer_(observer) {}

ClientConnection::~ClientConnection() {
  CHECK(closed()) << "a connection must be given to ClientPoller::Close()";
  if (calls_ == nullptr) return;
  watcher_->Unwatch(calls_->connection().id());
  calls_.reset();
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
  if (!connecting()) step_ = Step::kNothing;
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
