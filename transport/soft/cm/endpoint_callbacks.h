// Callbacks that the engine's thread runs for identifiers, and the closing of
// sockets that it watches.

#ifndef VERBENA_TRANSPORT_SOFT_CM_ENDPOINT_CALLBACKS_H_
#define VERBENA_TRANSPORT_SOFT_CM_ENDPOINT_CALLBACKS_H_

#include <chrono>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/base/clock.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/cm/cm_endpoint.h"
#include "transport/soft/cm/cm_locks.h"

namespace verbena::soft {

// Sockets on their way out. Stops watching and closes them when it is
// destroyed, which must be after kEndpoints is released: the engine's thread
// may be waiting for that lock in a callback of one of them.
//
// Confined to the thread that created it.
class ClosingSockets {
 public:
  explicit ClosingSockets(Engine& engine) : engine_(engine) {}
  ClosingSockets(const ClosingSockets&) = delete;
  ClosingSockets& operator=(const ClosingSockets&) = delete;
  ~ClosingSockets();

  void Add(base::UniqueFd socket);

 private:
  Engine& engine_;
  std::vector<base::UniqueFd> sockets_;
};

// Callbacks of endpoints on the engine's thread. Each runs with kEndpoints
// held, and only while its endpoint exists and has its socket: so nobody has to
// cancel a timer.
//
// Thread-safe.
class EndpointCallbacks {
 public:
  // Called with kEndpoints held.
  using Callback = std::function<void(CmEndpoint&, ClosingSockets&)>;

  // `mutex` is the mutex that kEndpoints names. Both outlive this object.
  EndpointCallbacks(Engine& engine, EndpointsMutex& mutex)
      : engine_(engine), mutex_(mutex) {}
  EndpointCallbacks(const EndpointCallbacks&) = delete;
  EndpointCallbacks& operator=(const EndpointCallbacks&) = delete;

  Clock::TimePoint Now() const { return engine_.clock().Now(); }

  // Calls `callback` whenever `socket` is readable, until Unwatch or
  // ClosingSockets. Returns what Engine::Watch() does.
  int Watch(int socket, CmEndpoint& endpoint, Callback callback);
  // REQUIRES: it is called on the engine's thread. From any other, with the
  // lock held, it could wait for a callback that waits for the lock.
  void Unwatch(int socket) { engine_.Unwatch(socket); }

  void StartTimer(std::chrono::nanoseconds delay, CmEndpoint& endpoint,
                  Callback callback);

 private:
  std::function<void()> WithLock(CmEndpoint& endpoint, Callback callback);

  Engine& engine_;
  EndpointsMutex& mutex_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_ENDPOINT_CALLBACKS_H_
