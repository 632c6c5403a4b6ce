// Credentials: each side of a connection proves to the other who it is, before
// the first call.
//
// The transport carries the messages of both sides, and does not know what they
// mean. The client sends its first message in its HELLO. The server may then
// ask, and the client answers, as often as the server likes. The server's last
// message comes with the WELCOME (transport/wire/frame.h). A side that is not
// content ends the connection with the reason.

#ifndef VERBENA_TRANSPORT_BASE_CREDENTIALS_H_
#define VERBENA_TRANSPORT_BASE_CREDENTIALS_H_

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "transport/base/auth_context.h"
#include "transport/base/limits.h"
#include "transport/base/seal.h"

namespace verbena::transport {

// Facts about a peer that this host knows without asking the peer.
struct PeerFacts {
  // The user of the process at the other end, by the word of this host's
  // kernel; nothing where nobody vouches for that: on RDMA devices, and for
  // peers on other hosts.
  std::optional<uid_t> user = std::nullopt;
  // A server's name, as the client knows it, or else its IP address.
  std::string name = {};
};

// In all of the following a `message` is what the other side said, which may be
// anything, and `hellos` is what both sides said of themselves before: the
// private data of both, the memory that the client offers among them, and the
// whole HELLO. Both sides see the same bytes, if nobody has changed them on the
// way. What is returned as a message has at most kMaxCredentialBytes. A status
// that is not OK ends the connection, and the other side hears its text; it
// should be UNAUTHENTICATED where the other side is to blame.
//
// A handshake is one connection's, and is used by one thread at a time; its
// methods must not block.

// OK unless the own credentials say too much at once.
inline absl::Status CheckOwnMessage(absl::string_view message) {
  if (message.size() <= kMaxCredentialBytes) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("the credentials sent ", message.size(),
                   " bytes at once; the limit is ", kMaxCredentialBytes));
}

// OK unless credentials have promised seals and made none.
inline absl::Status CheckSeals(bool promised, const Sealer* sealer,
                               const Opener* opener) {
  if (!promised || (sealer != nullptr && opener != nullptr)) {
    return absl::OkStatus();
  }
  return absl::InternalError("the credentials have made no keys");
}

// For credentials that break their promise.
inline absl::Status NoHandshake() {
  return absl::InternalError("the credentials began no handshake");
}

// The client's side.
class ClientHandshake {
 public:
  virtual ~ClientHandshake() = default;
  // Returns the message for the HELLO.
  virtual absl::StatusOr<std::string> Hello() = 0;
  // Answers the server.
  virtual absl::StatusOr<std::string> Answer(absl::string_view message,
                                             absl::string_view hellos) = 0;
  // The server lets this client in, and `message` is its last word. OK if this
  // is the server that it should be.
  virtual absl::Status Finish(absl::string_view message,
                              absl::string_view hellos) = 0;

  // Returns what has become due with the last Answer(): an opener for all that
  // the server sends behind the message that was answered, a sealer for all
  // that this side sends behind the answer. Each is returned once.
  virtual Seals TakeSeals() { return {}; }
};

// The server's side.
class ServerHandshake {
 public:
  struct Answer {
    std::string message;
    // The client's identity, which lets it in; null if it has to answer first.
    std::shared_ptr<const AuthContext> peer;
    // A sealer, if not null, is for all that is sent behind `message`; if that
    // goes with the WELCOME, for the WELCOME as well. An opener is for all that
    // the client sends behind the message that was answered.
    Seals seals = {};
    // With `peer`, unless null: becomes true when that is not to be believed
    // any more. The connection ends then, within a second or so.
    std::shared_ptr<const std::atomic<bool>> withdrawn = nullptr;
  };

  virtual ~ServerHandshake() = default;
  // Handles the client's message in its HELLO, and then each of its answers.
  virtual absl::StatusOr<Answer> OnMessage(absl::string_view message,
                                           absl::string_view hellos) = 0;
};

// Credentials that a client shows. Thread-safe.
class ClientCredentials {
 public:
  virtual ~ClientCredentials() = default;
  // The kind, one word: server and client must have the same. Empty: there is
  // nothing to prove, and nobody begins a handshake.
  virtual absl::string_view kind() const = 0;
  // Begins the handshake of a connection with the server that `server`
  // describes. Never null.
  virtual std::unique_ptr<ClientHandshake> Begin(
      const PeerFacts& server) const = 0;
  // Whether connections will be sealed. If so, handshakes return Seals before
  // they finish, and the client lends no memory to bytes that are not sealed.
  virtual bool seals() const { return false; }
};

// Credentials that a server asks its clients for. Thread-safe.
class ServerCredentials {
 public:
  virtual ~ServerCredentials() = default;
  // See ClientCredentials.
  virtual absl::string_view kind() const = 0;
  // See ClientCredentials.
  virtual bool seals() const { return false; }
  virtual std::unique_ptr<ServerHandshake> Begin(
      const PeerFacts& client) const = 0;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_BASE_CREDENTIALS_H_
