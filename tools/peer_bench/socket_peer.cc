// The floor: a message there and back over a Unix socket, both sides blocking.
// What sleeps between calls can hardly be faster than this.

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tools/peer_bench/peer.h"
#include "transport/base/unique_fd.h"

namespace verbena::peers {
namespace {

// An abstract name; it ends with its last character.
struct Name {
  explicit Name(const std::string& text) {
    address.sun_family = AF_UNIX;
    const size_t bytes = std::min(text.size(), sizeof(address.sun_path) - 1);
    std::copy_n(text.data(), bytes, address.sun_path + 1);
    length =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  }

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&address);
  }

  sockaddr_un address = {};
  socklen_t length = 0;
};

base::UniqueFd NewSocket() {
  // SOCK_SEQPACKET keeps the bounds of messages, so one recv() takes a whole
  // one.
  return base::UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
}

// Sends back what comes, until the client is gone.
void SendBack(int fd) {
  const base::UniqueFd socket(fd);
  std::string message(kLargestPayload + 1, '\0');
  while (true) {
    const ssize_t bytes = recv(fd, message.data(), message.size(), 0);
    // The client has closed its end, or has died.
    if (bytes <= 0) return;
    const auto length = static_cast<size_t>(bytes);
    if (send(fd, message.data(), length, MSG_NOSIGNAL) != bytes) return;
  }
}

// A connection of one caller. The message has one byte more than the payload,
// because an empty one would look like the end.
struct Caller {
  explicit Caller(const std::string& payload)
      : request(payload + '.'), reply(request.size(), '\0') {}

  absl::Status Call() {
    const auto bytes = static_cast<ssize_t>(request.size());
    if (send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) ==
            bytes &&
        recv(socket.get(), reply.data(), reply.size(), 0) == bytes) {
      return absl::OkStatus();
    }
    return absl::UnavailableError("the server is gone");
  }

  base::UniqueFd socket = NewSocket();
  std::string request;
  std::string reply;
};

class SocketPeer final : public Peer {
 public:
  std::vector<std::string> servers() const override { return {"blocking"}; }

  // Starts a thread for each connection, and ignores `address`.
  absl::StatusOr<std::string> Serve(const std::string& /*server*/,
                                    const std::string& /*address*/) override {
    const std::string text = absl::StrCat("verbena-socket-peer-", getpid());
    const Name name(text);
    if (bind(listener_.get(), name.get(), name.length) != 0 ||
        listen(listener_.get(), SOMAXCONN) != 0) {
      return absl::ErrnoToStatus(errno, "listen on a Unix socket");
    }
    std::thread([fd = listener_.get()] {
      while (true) {
        const int accepted = accept4(fd, nullptr, nullptr, SOCK_CLOEXEC);
        if (accepted < 0) return;
        std::thread(SendBack, accepted).detach();
      }
    }).detach();
    return text;
  }

  // Gives each caller its own connection, whatever options.channels is, because
  // callers that share one would take turns.
  absl::StatusOr<std::vector<BlockingCall>> Connect(
      const std::string& address, const CallersOptions& options) override {
    const Name name(address);
    std::vector<BlockingCall> echoes;
    for (int i = 0; i < options.callers; ++i) {
      auto caller = std::make_shared<Caller>(options.payload);
      if (connect(caller->socket.get(), name.get(), name.length) != 0) {
        return absl::ErrnoToStatus(errno, "connect to a Unix socket");
      }
      echoes.push_back([caller] { return caller->Call(); });
    }
    return echoes;
  }

 private:
  const base::UniqueFd listener_ = NewSocket();
};

}  // namespace
}  // namespace verbena::peers

int main(int argc, char** argv) {
  verbena::peers::SocketPeer peer;
  return verbena::peers::RunPeer(argc, argv, peer);
}
