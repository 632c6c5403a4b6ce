// Which process of the host has a port that all of them share.

#ifndef VERBENA_TRANSPORT_SOFT_REMOTE_PORT_ROLE_H_
#define VERBENA_TRANSPORT_SOFT_REMOTE_PORT_ROLE_H_

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "transport/base/unique_fd.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/base/peer_users.h"

namespace verbena::soft {

// A role that one process of the host has, until it ends. The others sleep
// until the kernel tells them of the end, and then one of them takes over.
//
// The role is a name among Unix sockets: only one process can bind it. The
// process that has the role listens there. The others connect, and nobody
// accepts: their connections end when that process does.
//
// Not thread-safe. The engine may be destroyed before it.
class PortRole {
 public:
  // Calls `on_free` on the engine's thread when Take() is worth another try.
  PortRole(Engine& engine, std::string port, std::function<void()> on_free)
      : engine_(engine), port_(std::move(port)), on_free_(std::move(on_free)) {}
  PortRole(const PortRole&) = delete;
  PortRole& operator=(const PortRole&) = delete;

  // Tries to take the role, and returns whether this process has it from now
  // on. If not, `on_free` will be called once. REQUIRES: no such call is due.
  bool Take();

  // After Take() has said no: whether the role is that of a process of other
  // users than `users`.
  bool IsOfOthers(const PeerUsers& users) const {
    return owner_.valid() && !users.AllowsPeerOf(owner_.get());
  }

  // Afterwards `on_free` is not running and will not be called.
  // REQUIRES: Take() is not called any more.
  void StopWaiting();

 private:
  void Retry(std::chrono::milliseconds delay);

  Engine& engine_;
  const std::string port_;
  const std::function<void()> on_free_;
  base::UniqueFd role_;   // Listens, while this process has the role.
  base::UniqueFd owner_;  // A connection to the process that has the role.
  Engine::TimerId timer_ = 0;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_REMOTE_PORT_ROLE_H_
