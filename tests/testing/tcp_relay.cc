#include "tests/testing/tcp_relay.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "transport/base/check.h"

namespace verbena::testing_support {
namespace {

// Returns false when the connection has ended.
bool PassOn(int from, int to) {
  std::array<char, 65536> bytes;
  const ssize_t received = recv(from, bytes.data(), bytes.size(), 0);
  if (received <= 0) return false;
  for (ssize_t sent = 0; sent < received;) {
    const ssize_t part =
        send(to, bytes.data() + sent, static_cast<size_t>(received - sent),
             MSG_NOSIGNAL);
    if (part <= 0) return false;
    sent += part;
  }
  return true;
}

}  // namespace

TcpRelay::TcpRelay(const std::string& server)
    : server_(*base::SocketAddress::ParseNumeric(server)),
      listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      wake_(eventfd(0, EFD_CLOEXEC)) {
  auto address = base::SocketAddress::Loopback(AF_INET, 0);
  CHECK(bind(listener_.get(), address.get(), address.size()) == 0);
  socklen_t size = address.size();
  CHECK(getsockname(listener_.get(), address.mutable_get(), &size) == 0);
  CHECK(listen(listener_.get(), /*backlog=*/64) == 0);
  address_ = address.ToString();
  CHECK(thread_.Start([this] { Run(); }).ok());
}

TcpRelay::~TcpRelay() {
  ends_ = true;
  Set(Mode::kRefuse);
  thread_.Join();
}

void TcpRelay::Set(Mode mode) {
  mode_ = mode;
  const uint64_t one = 1;
  CHECK(write(wake_.get(), &one, sizeof(one)) == sizeof(one));
}

void TcpRelay::Run() {
  while (!ends_) {
    const Mode mode = mode_;
    if (mode == Mode::kRefuse) pairs_.clear();
    std::vector<pollfd> waits = {{wake_.get(), POLLIN, 0},
                                 {listener_.get(), POLLIN, 0}};
    if (mode == Mode::kPass) {
      for (const Pair& each : pairs_) {
        waits.push_back({each.client.get(), POLLIN, 0});
        waits.push_back({each.server.get(), POLLIN, 0});
      }
    }
    if (poll(waits.data(), waits.size(), /*timeout=*/-1) < 0) continue;
    uint64_t wakes = 0;
    if (waits[0].revents != 0 &&
        read(wake_.get(), &wakes, sizeof(wakes)) == sizeof(wakes)) {
      continue;  // The mode may be another.
    }
    size_t place = 2;
    for (auto pair = pairs_.begin();
         place < waits.size() && pair != pairs_.end(); place += 2) {
      const int client = pair->client.get();
      const int server = pair->server.get();
      const bool lives =
          (waits[place].revents == 0 || PassOn(client, server)) &&
          (waits[place + 1].revents == 0 || PassOn(server, client));
      pair = lives ? std::next(pair) : pairs_.erase(pair);
    }
    if (waits[1].revents != 0) Accept();
  }
}

void TcpRelay::Accept() {
  base::UniqueFd client(
      accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  base::UniqueFd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!client.valid() || mode_ == Mode::kRefuse) return;
  if (connect(server.get(), server_.get(), server_.size()) != 0) return;
  ++connections_;
  pairs_.push_back({.client = std::move(client), .server = std::move(server)});
}

}  // namespace verbena::testing_support
