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

// Who has connected to the port.
struct TcpCaller {
  TcpPreamble preamble;
  // Not empty. Read once: a connection may end at any time, or be ended by a
  // process that has kept the socket, and then has no address any more.
  base::SocketAddress address;
};

// Makes the thread and opens the port when they are first used: a process that
// talks only to its own host has neither.
//
// Thread-safe. Never destroyed once used, as the device is not.
class Network {
 public:
  // With port 0 there is no way to other hosts.
  // `users` outlives it.
  Network(uint16_t port, const PeerUsers& users) : port_(port), users_(users) {}
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  uint16_t port() const { return port_; }
  bool enabled() const { return port_ != 0; }

  // Makes what the methods below need. Returns 0, or the errno with which the
  // kernel refuses it; then it may be called again.
  //
  // This method REQUIRES enabled(); OpenPort, Connect and Accept, that it has
  // returned 0.
  int Start();

  // From now on other hosts can reach this process.
  void OpenPort();

  // Carries `link` to `host`, at whatever port `host` says, from `source`
  // unless that is empty. See Relay::Connect.
  void Connect(const base::SocketAddress& source, base::SocketAddress host,
               const TcpPreamble& preamble, RelayLink link);

  // Reads the preamble of a connection that somebody has passed to this
  // process. None when it has no preamble, or is no connection.
  static std::optional<TcpCaller> ReadPreamble(int tcp);
  // Carries `link` over such a connection. See Relay::Accept.
  void Accept(ForeignFd tcp, const TcpPreamble& preamble, RelayLink link);

  // Waits, no longer than `longest` for all relays together, until what queue
  // pairs and identifiers have told them is in the kernel's hands. Allowed when
  // not enabled.
  void CatchUp(std::chrono::nanoseconds longest);

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
  std::atomic<Running*> running_{nullptr};  // The same, once it runs.
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_REMOTE_NETWORK_H_
