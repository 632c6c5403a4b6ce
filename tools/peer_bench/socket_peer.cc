// The floors: a message there and back over a Unix socket or a TCP connection,
// both sides blocking, or over TCP with both sides spinning. Nothing that
// sleeps, or spins, between calls can be much faster than this.

#include <netinet/in.h>
#include <netinet/tcp.h>
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
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tools/peer_bench/peer.h"
#include "transport/base/socket_address.h"
#include "transport/base/status_macros.h"
#include "transport/base/unique_fd.h"

namespace verbena::peers {
namespace {

// The largest payload, in bytes: a packet of a Unix socket holds so much.
constexpr size_t kLargestPayload = size_t{128} << 10;

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

base::UniqueFd UnixSocket() {
  // SOCK_SEQPACKET keeps the bounds of messages, so one recv() takes a whole
  // one.
  return base::UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
}

base::UniqueFd TcpSocket(int family) {
  return base::UniqueFd(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

void SendAtOnce(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// Receives what has come, up to `bytes`. With `flags` MSG_DONTWAIT it spins.
ssize_t ReceiveSome(int fd, char* to, size_t bytes, int flags) {
  while (true) {
    const ssize_t got = recv(fd, to, bytes, flags);
    if (got >= 0 || (errno != EAGAIN && errno != EINTR)) return got;
  }
}

// Sends back what comes, until the client is gone.
void SendBack(int fd, int flags) {
  const base::UniqueFd socket(fd);
  std::string message(kLargestPayload + 1, '\0');
  while (true) {
    const ssize_t bytes =
        ReceiveSome(fd, message.data(), message.size(), flags);
    // The client has closed its end, or has died.
    if (bytes <= 0) return;
    const auto length = static_cast<size_t>(bytes);
    if (send(fd, message.data(), length, MSG_NOSIGNAL) != bytes) return;
  }
}

// A connection of one caller. The message has one byte more than the payload,
// because an empty one would look like the end.
struct Caller {
  Caller(base::UniqueFd fd, int flags_of_recv, const std::string& payload)
      : socket(std::move(fd)),
        flags(flags_of_recv),
        request(payload + '.'),
        reply(request.size(), '\0') {}

  absl::Status Call() {
    const auto bytes = static_cast<ssize_t>(request.size());
    if (send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
        bytes) {
      return absl::UnavailableError("the server is gone");
    }
    for (size_t got = 0; got < reply.size();) {
      const ssize_t more = ReceiveSome(socket.get(), reply.data() + got,
                                       reply.size() - got, flags);
      if (more <= 0) return absl::UnavailableError("the server is gone");
      got += static_cast<size_t>(more);
    }
    return absl::OkStatus();
  }

  base::UniqueFd socket;
  const int flags;
  std::string request;
  std::string reply;
};

// The kinds of servers, each of which stands before the address it returns.
constexpr char kTcp[] = "tcp";
constexpr char kTcpSpin[] = "tcp-spin";

class SocketPeer final : public Peer {
 public:
  std::vector<std::string> servers() const override {
    return {"blocking", kTcp, kTcpSpin};
  }
  size_t largest_payload() const override { return kLargestPayload; }

  // Starts a thread for each connection. Over a Unix socket it ignores
  // `address`.
  absl::StatusOr<std::string> Serve(const std::string& server,
                                    const std::string& address) override {
    if (server != "blocking") return ServeTcp(server, address);
    const std::string text = absl::StrCat("verbena-socket-peer-", getpid());
    const Name name(text);
    listener_ = UnixSocket();
    if (bind(listener_.get(), name.get(), name.length) != 0 ||
        listen(listener_.get(), SOMAXCONN) != 0) {
      return absl::ErrnoToStatus(errno, "listen on a Unix socket");
    }
    Accept(0);
    return text;
  }

  // Gives each caller its own connection, whatever options.channels is, because
  // callers that share one would take turns.
  absl::StatusOr<std::vector<BlockingCall>> Connect(
      const std::string& address, const CallersOptions& options) override {
    std::vector<BlockingCall> echoes;
    for (int i = 0; i < options.callers; ++i) {
      int flags = 0;
      ASSIGN_OR_RETURN(base::UniqueFd socket, ConnectTo(address, flags));
      const auto caller =
          std::make_shared<Caller>(std::move(socket), flags, options.payload);
      echoes.push_back([caller] { return caller->Call(); });
    }
    return echoes;
  }

 private:
  absl::StatusOr<std::string> ServeTcp(const std::string& server,
                                       const std::string& address) {
    ASSIGN_OR_RETURN(const base::SocketAddress at,
                     base::SocketAddress::ParseNumeric(address));
    listener_ = TcpSocket(at.family());
    sockaddr_storage name = {};
    socklen_t length = sizeof(name);
    auto* const bound = reinterpret_cast<sockaddr*>(&name);
    if (bind(listener_.get(), at.get(), at.size()) != 0 ||
        listen(listener_.get(), SOMAXCONN) != 0 ||
        getsockname(listener_.get(), bound, &length) != 0) {
      return absl::ErrnoToStatus(errno, "listen on a TCP socket");
    }
    Accept(server == kTcpSpin ? MSG_DONTWAIT : 0);
    return absl::StrCat(server, ":",
                        base::SocketAddress::FromSockaddr(bound).ToString());
  }

  void Accept(int flags) {
    std::thread([fd = listener_.get(), flags] {
      while (true) {
        const int accepted = accept4(fd, nullptr, nullptr, SOCK_CLOEXEC);
        if (accepted < 0) return;
        SendAtOnce(accepted);
        std::thread(SendBack, accepted, flags).detach();
      }
    }).detach();
  }

  static absl::StatusOr<base::UniqueFd> ConnectTo(absl::string_view address,
                                                  int& flags) {
    const bool spins =
        absl::ConsumePrefix(&address, absl::StrCat(kTcpSpin, ":"));
    if (!spins && !absl::ConsumePrefix(&address, absl::StrCat(kTcp, ":"))) {
      const Name name{std::string(address)};
      base::UniqueFd socket = UnixSocket();
      if (connect(socket.get(), name.get(), name.length) != 0) {
        return absl::ErrnoToStatus(errno, "connect to a Unix socket");
      }
      return socket;
    }
    if (spins) flags = MSG_DONTWAIT;
    ASSIGN_OR_RETURN(const base::SocketAddress to,
                     base::SocketAddress::ParseNumeric(address));
    base::UniqueFd socket = TcpSocket(to.family());
    if (connect(socket.get(), to.get(), to.size()) != 0) {
      return absl::ErrnoToStatus(errno, "connect to a TCP socket");
    }
    SendAtOnce(socket.get());
    return socket;
  }

  base::UniqueFd listener_;
};

}  // namespace
}  // namespace verbena::peers

int main(int argc, char** argv) {
  verbena::peers::SocketPeer peer;
  return verbena::peers::RunPeer(argc, argv, peer);
}
