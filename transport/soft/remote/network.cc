#include "transport/soft/remote/network.h"

#include <sys/socket.h>

#include <utility>

#include "transport/soft/remote/tcp_socket.h"

namespace verbena::soft {

Network::Running& Network::Run() {
  std::call_once(once_, [this] {
    running_ = std::make_unique<Running>(port_);
    runs_.store(true, std::memory_order_release);
  });
  return *running_;
}

void Network::OpenPort() { Run().port_switch.Start(); }

void Network::Connect(const base::SocketAddress& source,
                      base::SocketAddress host, const TcpPreamble& preamble,
                      RelayLink link) {
  base::SocketAddress from = source;
  if (!from.empty()) from.set_port(0);
  host.set_port(port_);
  Relay::Connect(Run().engine, from, host, preamble, std::move(link));
}

bool Network::ReadPreamble(int tcp, TcpPreamble& preamble) {
  return AdoptTcpSocket(tcp) &&
         ::recv(tcp, &preamble, sizeof(preamble), MSG_DONTWAIT) ==
             sizeof(preamble) &&
         preamble.IsLegal();
}

void Network::Accept(base::UniqueFd tcp, const TcpPreamble& preamble,
                     RelayLink link) {
  Relay::Accept(Run().engine, std::move(tcp), preamble, std::move(link));
}

void Network::CatchUp(std::chrono::nanoseconds longest) {
  if (!runs_.load(std::memory_order_acquire)) return;
  running_->engine.RunAndCatchUp([] {}, longest);
}

}  // namespace verbena::soft
