#include "transport/soft/cm/endpoint_callbacks.h"

#include <memory>
#include <utility>

#include "transport/soft/base/foreign_fd.h"

namespace verbena::soft {

ClosingSockets::~ClosingSockets() {
  for (base::UniqueFd& socket : sockets_) {
    // The engine borrows the descriptor until this returns.
    engine_.Unwatch(socket.get());
    CloseEmptied(std::move(socket));
  }
}

void ClosingSockets::Add(base::UniqueFd socket) {
  if (socket.valid()) sockets_.push_back(std::move(socket));
}

int EndpointCallbacks::Watch(int socket, CmEndpoint& endpoint,
                             Callback callback) {
  return engine_.Watch(socket, WithLock(endpoint, std::move(callback)));
}

void EndpointCallbacks::StartTimer(std::chrono::nanoseconds delay,
                                   CmEndpoint& endpoint, Callback callback) {
  engine_.StartTimer(delay, WithLock(endpoint, std::move(callback)));
}

// The callback holds no reference, so a timer keeps no endpoint alive. An
// endpoint that was destroyed may still be kept by others, but has no socket
// any more.
std::function<void()> EndpointCallbacks::WithLock(CmEndpoint& endpoint,
                                                  Callback callback) {
  return
      [this, weak = endpoint.weak_from_this(), callback = std::move(callback)] {
        const std::shared_ptr<CmEndpoint> strong = weak.lock();
        if (strong == nullptr) return;
        ClosingSockets closing(engine_);  // Destroyed after the lock.
        const EndpointsLock lock(mutex_);
        if (strong->socket.valid()) callback(*strong, closing);
      };
}

}  // namespace verbena::soft
