// The way to other hosts: the thread of the relays, and the TCP port at which
// other hosts reach this process.

#ifndef VERBENA_TRANSPORT_SOFT_REMOTE_NETWORK_H_
#define VERBENA_TRANSPORT_SOFT_REMOTE_NETWORK_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/base/socket_address.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/base/foreign_fd.h"
#include "transport/soft/base/peer_users.h"
#include "transport/soft/remote/lingering_relays.h"
#include "transport/soft/remote/relay.h"
#include "transport/soft/remote/tcp_protocol.h"
#include "transport/soft/remote/tcp_switch.h"

namespace verbena::soft {

// A queue pair of another host that was connected manually, as far as it is
// known.
struct TcpCaller {
  TcpPreamble preamble;
  // Not empty. Read once: a connection may end at any time, or be ended by a
  // process that has kept the socket, and then has no address any more.
  base::SocketAddress address;
};

// The relays of this process and their thread, and the port. The thread is made
// and the port is opened when they are first used: a process that talks only to
// its own host has neither.
//
// Thread-safe. Never destroyed once used, like the device.
class Network {
 public:
  // With port 0 there is no way to other hosts. `users` outlives it.
  Network(uint16_t port, const PeerUsers& users) : port_(port), users_(users) {}
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  uint16_t port() const { return port_; }
  bool enabled() const { return port_ != 0; }

  // Makes the thread that the methods below need. REQUIRES: enabled(). Returns
  // 0, or the errno with which the kernel refuses it; then it may be called
  // again. OpenPort(), Connect() and Accept() REQUIRE that it has returned 0.
  int Start();

  // From now on other hosts can reach this process.
  void OpenPort();

  // Carries `link` to `host` from `source`, unless that is empty: to its port,
  // or, with a preamble, to the device's port there. See Relay::Connect.
  std::shared_ptr<LinkDriver> Connect(const base::SocketAddress& source,
                                      base::SocketAddress host,
                                      std::optional<TcpPreamble> preamble,
                                      RelayLink link);

  // Reads the preamble of a connection that somebody has passed to this
  // process. None when it has no preamble, or is no connection.
  static std::optional<TcpCaller> ReadPreamble(int tcp);
  // Carries `link` over such a connection. See Relay::Accept.
  std::shared_ptr<LinkDriver> Accept(ForeignFd tcp, bool manual,
                                     RelayLink link);

  // Waits until the kernel has all that queue pairs and identifiers have told
  // their relays, but no longer than `longest` for all of them together.
  // Allowed when not enabled.
  void CatchUp(std::chrono::nanoseconds longest);
  // Ends the thread, if there is one: see Engine.
  void EndThread(absl::Duration longest);

 private:
  struct Running {
    Running(uint16_t port, const PeerUsers& users)
        : port_switch(engine, port, users) {}
    Engine engine;
    LingeringRelays lingering;
    TcpSwitch port_switch;
  };
  Running& running() const;

  const uint16_t port_;
  const PeerUsers& users_;
  base::Mutex mutex_;
  std::unique_ptr<Running> owned_ ABSL_GUARDED_BY(mutex_);
  // owned_.get(), once its engine runs. Stored with release, so that a thread
  // that acquires it may use it without the mutex.
  std::atomic<Running*> running_{nullptr};
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_REMOTE_NETWORK_H_
