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
  // No event may find the handler of an id that is destroyed next.
  watcher_->Unwatch(calls_->connection().id());
  calls_.reset();
}

void ClientConnection::Close() {
  // The observer may be destroyed as soon as this returns.
  observer_ = nullptr;
  Fail(absl::UnavailableError(
      absl::StrCat("the connection with ", peer_, " was closed")));
  // A thread that sleeps looks anew until when.
  NoteChange();
}

void ClientConnection::Fail(const absl::Status& reason) {
  // A connection with a queue pair ends in its own steps, and
  // calls NoteChange().
  if (calls_ != nullptr) return calls_->connection().Close(reason);
  if (failed()) return;
  failure_ = reason;
  if (id_.has_value()) {
    watcher_->Unwatch(*id_);
    id_.reset();
  }
  NoteChange();
}

// Posts the notice, because the observer must not be called in the middle
// of things.
void ClientConnection::NoteChange() {
  if (!connecting()) step_ = Step::kNothing;
  // A notice that is posted already will see this change, too.
  if (std::exchange(notice_posted_, true)) return;
  poller_.Post(&notice_);
}

// Compares what is true now with what the observer was told. Each call to the
// observer is the last step or is followed by a look at observer_, because it
// may close the connection.
void ClientConnection::Notify() {
  notice_posted_ = false;
  if (observer_ != nullptr && usable() && !told_.connected) {
    told_.connected = true;
    observer_->OnConnected();
  }
  // OnConnected() may have closed the connection, and observer_ is null then.
  const bool lost = failed() && !told_.failed;
  const bool drains = draining() && !told_.draining;
  if (observer_ == nullptr || (!lost && !drains)) return;
  // Before OnUnusable(), which may change anything.
  told_.failed = failed();
  told_.draining = draining();
  observer_->OnUnusable();
}

void ClientConnection::RefuseSlow(ClientCall* call) const {
  call->OnUnsent(failed() ? failure_
                          : absl::UnavailableError(
                                absl::StrCat("the connection with ", peer_,
                                             " is not established yet")));
}

}  // namespace verbena::transport
