// What the two sides of a connection prove to each other before the first call.
//
// The transport carries what they say, and knows nothing of what it means: the
// client says something in its HELLO, the server asks and the client answers as
// often as the server likes, and the server's last word comes with the WELCOME
// (transport/wire/frame.h). Whichever side is not content ends the connection
// with the reason.

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

namespace verbena::transport {

// What is known of a peer without its help.
struct PeerFacts {
  // The user of the process at the other end, by the word of this host's
  // kernel; nothing where nobody vouches for that: on RDMA devices, and for
  // peers on other hosts.
  std::optional<uid_t> user;
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
      absl::StrCat("credentials that say ", message.size(),
                   " bytes at once, more than ", kMaxCredentialBytes));
}

// For credentials that break their promise.
inline absl::Status NoHandshake() {
  return absl::InternalError("credentials that begin no handshake");
}

// The client's side.
class ClientHandshake {
 public:
  virtual ~ClientHandshake() = default;
  // What the HELLO is to say.
  virtual absl::StatusOr<std::string> Hello() = 0;
  // Answers the server.
  virtual absl::StatusOr<std::string> Answer(absl::string_view message,
                                             absl::string_view hellos) = 0;
  // The server lets this client in, and `message` is its last word. OK if this
  // is the server that it should be.
  virtual absl::Status Finish(absl::string_view message,
                              absl::string_view hellos) = 0;
};

// The server's side.
class ServerHandshake {
 public:
  struct Answer {
    std::string message;
    // Who the client is, which lets it in; null while it has to answer.
    std::shared_ptr<const AuthContext> peer;
    // With `peer`, unless null: becomes true when that is not to be believed
    // any more. The connection ends then, within a second or so.
    std::shared_ptr<const std::atomic<bool>> withdrawn = nullptr;
  };

  virtual ~ServerHandshake() = default;
  // What the client said in its HELLO, the first time, and then each answer.
  virtual absl::StatusOr<Answer> OnMessage(absl::string_view message,
                                           absl::string_view hellos) = 0;
};

// What a client has to show. Thread-safe.
class ClientCredentials {
 public:
  virtual ~ClientCredentials() = default;
  // The kind, one word: server and client must have the same. Empty: there is
  // nothing to prove, and nobody begins a handshake.
  virtual absl::string_view kind() const = 0;
  // A connection with a server of whom so much is known. Never null.
  virtual std::unique_ptr<ClientHandshake> Begin(
      const PeerFacts& server) const = 0;
};

// What a server wants to see. Thread-safe.
class ServerCredentials {
 public:
  virtual ~ServerCredentials() = default;
  // See ClientCredentials.
  virtual absl::string_view kind() const = 0;
  virtual std::unique_ptr<ServerHandshake> Begin(
      const PeerFacts& client) const = 0;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_BASE_CREDENTIALS_H_
