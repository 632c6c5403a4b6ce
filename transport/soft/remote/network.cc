#include "transport/soft/remote/network.h"

#include <sys/socket.h>

#include <utility>

#include "transport/base/check.h"
#include "transport/soft/remote/tcp_socket.h"

namespace verbena::soft {

// If the thread cannot be started, the object stays, and the next call tries
// again. The release lets others use it without the mutex.
int Network::Start() {
  CHECK(enabled());
  if (running_.load(std::memory_order_acquire) != nullptr) return 0;
  const base::MutexLock lock(mutex_);
  if (owned_ == nullptr) owned_ = std::make_unique<Running>(port_, users_);
  if (const int error = owned_->engine.Start(); error != 0) return error;
  running_.store(owned_.get(), std::memory_order_release);
  return 0;
}

Network::Running& Network::running() const {
  Running* const running = running_.load(std::memory_order_acquire);
  CHECK(running != nullptr);
  return *running;
}

void Network::OpenPort() { running().port_switch.Start(); }

std::shared_ptr<LinkDriver> Network::Connect(
    const base::SocketAddress& source, base::SocketAddress host,
    std::optional<TcpPreamble> preamble, RelayLink link) {
  base::SocketAddress from = source;
  // The port is that of an identifier, if any, and no TCP port of this host.
  if (!from.empty()) from.set_port(0);
  if (preamble.has_value()) host.set_port(port_);
  Running& way = running();
  return Relay::Connect(way.engine, way.lingering, from, host, preamble,
                        std::move(link));
}

std::optional<TcpCaller> Network::ReadPreamble(int tcp) {
  TcpCaller caller;
  if (!AdoptTcpSocket(tcp)) return std::nullopt;
  caller.address = TcpPeerAddress(tcp);
  if (caller.address.empty() ||
      ::recv(tcp, &caller.preamble, sizeof(caller.preamble), MSG_DONTWAIT) !=
          sizeof(caller.preamble) ||
      !caller.preamble.IsLegal()) {
    return std::nullopt;
  }
  return caller;
}

std::shared_ptr<LinkDriver> Network::Accept(ForeignFd tcp, bool manual,
                                            RelayLink link) {
  Running& way = running();
  return Relay::Accept(way.engine, way.lingering, std::move(tcp), manual,
                       std::move(link));
}

void Network::EndThread(absl::Duration longest) {
  Running* const running = running_.load(std::memory_order_acquire);
  if (running != nullptr) running->engine.EndThread(longest);
}

void Network::CatchUp(std::chrono::nanoseconds longest) {
  Running* const running = running_.load(std::memory_order_acquire);
  if (running == nullptr) return;
  const auto begin = std::chrono::steady_clock::now();
  // Afterwards each relay knows whether its own side has left.
  running->engine.RunAndCatchUp([] {}, longest);
  running->lingering.AwaitSent(longest -
                               (std::chrono::steady_clock::now() - begin));
}

}  // namespace verbena::soft
