// The port at which other hosts reach the processes of this one.

#ifndef VERBENA_TRANSPORT_SOFT_REMOTE_TCP_SWITCH_H_
#define VERBENA_TRANSPORT_SOFT_REMOTE_TCP_SWITCH_H_

#include <chrono>
#include <cstdint>
#include <map>

#include "absl/strings/string_view.h"
#include "transport/base/rare_warning.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/base/peer_users.h"
#include "transport/soft/remote/port_role.h"

namespace verbena::soft {

// All processes of a host share one TCP port. One of them has it, and passes
// each connection to the process it is for, as the preamble says: to the owner
// of a queue pair number, or to a listener of the connection manager. From then
// on the connection is between the two processes alone. The others wait for the
// end of the one that has the port, and then one of them takes it; connections
// that exist do not notice.
//
// The process that has the port passes connections only to processes of users
// that it allows, and those take them only from users that they allow.
//
// Anybody can connect to the port. A connection that does not send a correct
// preamble in time is closed, and so is the oldest when there are too many.
//
// Used on the thread of its engine alone, except where it says otherwise. Never
// destroyed; the engine and the users live as long.
class TcpSwitch {
 public:
  TcpSwitch(Engine& engine, uint16_t port, const PeerUsers& users);
  TcpSwitch(const TcpSwitch&) = delete;
  TcpSwitch& operator=(const TcpSwitch&) = delete;

  // From now on this process wants to be reached: the port is opened, by this
  // process or another. From any thread.
  void Start();

 private:
  // A connection that has not been passed on yet.
  struct Visitor {
    base::UniqueFd socket;
    // True once the visitor was told that nobody listens, or that a process of
    // another user does. Then its end is awaited.
    bool refused = false;
    // The time until which its listener, which is away, is waited for; max()
    // before the first look.
    std::chrono::steady_clock::time_point refuse_at =
        std::chrono::steady_clock::time_point::max();
  };

  void Compete();
  void OpenPort();
  void OnIncoming();
  void AddVisitor(base::UniqueFd socket);
  void OnVisitor(uint64_t key);
  // Looks for the listener again soon; false when that was tried long enough.
  bool AskAgain(uint64_t key, Visitor& visitor);
  void RemoveVisitor(uint64_t key);
  enum class Passed {
    kYes,      // Passed to the process that the connection is for.
    kNo,       // The preamble is not correct, or passing failed.
    kRefused,  // Nobody listens at its port, which the visitor is to be told.
    kOthers,   // Another user's process listens; the visitor is to be told.
  };
  Passed Pass(int socket);
  void Warn(absl::string_view problem);

  Engine& engine_;
  const uint16_t port_;
  const PeerUsers& users_;
  base::RareWarning warning_;
  bool warned_ = false;
  bool started_ = false;
  PortRole role_;
  base::UniqueFd listener_;  // Listens at the port.
  uint64_t next_visitor_ = 1;
  std::map<uint64_t, Visitor> visitors_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_REMOTE_TCP_SWITCH_H_
