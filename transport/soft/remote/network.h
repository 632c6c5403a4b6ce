// The way to other hosts: a thread for what goes over TCP, and the port.

#ifndef VERBENA_TRANSPORT_SOFT_REMOTE_NETWORK_H_
#define VERBENA_TRANSPORT_SOFT_REMOTE_NETWORK_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>

#include "transport/base/socket_address.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/remote/relay.h"
#include "transport/soft/remote/tcp_protocol.h"
#include "transport/soft/remote/tcp_switch.h"

namespace verbena::soft {

// Nothing of it exists until it is used: a process that stays on its host opens
// no port and has no thread for it.
//
// Thread-safe. Never destroyed once used, as the device is not.
class Network {
 public:
  // 0 for no way to other hosts at all.
  explicit Network(uint16_t port) : port_(port) {}
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  uint16_t port() const { return port_; }
  bool enabled() const { return port_ != 0; }

  // Other hosts are to reach this process from now on.
  // REQUIRES of this and all below: enabled().
  void OpenPort();

  // Carries `link` to `host`, at whatever port `host` says, from `source`
  // unless that is empty. See Relay::Connect.
  void Connect(const base::SocketAddress& source, base::SocketAddress host,
               const TcpPreamble& preamble, RelayLink link);

  // Reads the preamble of a connection that somebody has passed to this
  // process. False when there is none.
  static bool ReadPreamble(int tcp, TcpPreamble& preamble);
  void Accept(base::UniqueFd tcp, const TcpPreamble& preamble, RelayLink link);

  // Waits, no longer than `longest`, until what queue pairs have told their
  // relays is in the kernel's hands. Allowed when not enabled.
  void Settle(std::chrono::nanoseconds longest);

 private:
  struct Running {
    explicit Running(uint16_t port) : port_switch(engine, port) {}
    Engine engine;
    TcpSwitch port_switch;
  };
  Running& Run();

  const uint16_t port_;
  std::once_flag once_;
  std::unique_ptr<Running> running_;  // Written once.
  std::atomic<bool> runs_{false};     // Once running_ has been written.
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_REMOTE_NETWORK_H_
