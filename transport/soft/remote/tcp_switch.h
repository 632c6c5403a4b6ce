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

// All processes of a host share one TCP port, at which queue pairs of other
// hosts find those that are connected manually. One process has the port, and
// passes each connection to the one that owns the queue pair whose number the
// preamble says. From then on the connection is between the two processes
// alone. The others wait for the end of the one that has the port, and then one
// of them takes it; connections that exist do not notice.
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
  void Compete();
  void OpenPort();
  void OnIncoming();
  void AddVisitor(base::UniqueFd socket);
  void OnVisitor(uint64_t key);
  void RemoveVisitor(uint64_t key);
  void Pass(int socket);
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
  // Connections that have not been passed on yet.
  std::map<uint64_t, base::UniqueFd> visitors_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_REMOTE_TCP_SWITCH_H_
