#include "rpc/credentials.h"

#include <unistd.h>

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "transport/base/status_macros.h"

namespace verbena {
namespace {

using transport::ClientHandshake;
using transport::PeerFacts;
using transport::ServerHandshake;

constexpr char kLocal[] = "local";
constexpr char kUserProperty[] = "user";

// --- Insecure ----------------------------------------------------------------

template <typename Credentials, typename Handshake>
class Insecure final : public Credentials {
 public:
  absl::string_view kind() const override { return ""; }
  std::unique_ptr<Handshake> Begin(const PeerFacts& /*peer*/) const override {
    return nullptr;
  }
};

// --- Local -------------------------------------------------------------------

absl::Status CheckUser(absl::string_view who, const PeerFacts& peer) {
  if (!peer.user.has_value()) {
    return absl::UnauthenticatedError(absl::StrCat(
        "local credentials are for processes of one host on the software "
        "device (\"soft\"): the kernel does not vouch for the ",
        who, " of this connection"));
  }
  // The kernel tells the peer's effective user, too.
  if (*peer.user == ::geteuid()) return absl::OkStatus();
  return absl::UnauthenticatedError(
      absl::StrCat("the ", who, " is a process of user ", *peer.user,
                   "; local credentials accept only user ", ::geteuid()));
}

class LocalClientHandshake final : public ClientHandshake {
 public:
  explicit LocalClientHandshake(const PeerFacts& server) : server_(server) {}

  absl::StatusOr<std::string> Hello() override {
    RETURN_IF_ERROR(CheckUser("server", server_));
    return std::string();
  }
  absl::StatusOr<std::string> Answer(absl::string_view /*message*/,
                                     absl::string_view /*hellos*/) override {
    return absl::UnauthenticatedError(
        "the server sent a challenge, which local credentials do not answer");
  }
  // The kernel has said who the server is.
  absl::Status Finish(absl::string_view /*message*/,
                      absl::string_view /*hellos*/) override {
    return absl::OkStatus();
  }

 private:
  const PeerFacts server_;
};

class LocalServerHandshake final : public ServerHandshake {
 public:
  explicit LocalServerHandshake(const PeerFacts& client) : client_(client) {}

  absl::StatusOr<Answer> OnMessage(absl::string_view /*message*/,
                                   absl::string_view /*hellos*/) override {
    RETURN_IF_ERROR(CheckUser("client", client_));
    auto peer = std::make_shared<AuthContext>();
    peer->AddProperty(kSecurityTypeProperty, kLocal);
    peer->AddProperty(kUserProperty, absl::StrCat(*client_.user));
    peer->SetPeerIdentityPropertyName(kUserProperty);
    return Answer{.message = "", .peer = std::move(peer)};
  }

 private:
  const PeerFacts client_;
};

template <typename Credentials, typename Handshake, typename LocalHandshake>
class Local final : public Credentials {
 public:
  absl::string_view kind() const override { return kLocal; }
  std::unique_ptr<Handshake> Begin(const PeerFacts& peer) const override {
    return std::make_unique<LocalHandshake>(peer);
  }
};

}  // namespace

std::shared_ptr<ChannelCredentials> InsecureChannelCredentials() {
  return std::make_shared<Insecure<ChannelCredentials, ClientHandshake>>();
}

std::shared_ptr<ServerCredentials> InsecureServerCredentials() {
  return std::make_shared<Insecure<ServerCredentials, ServerHandshake>>();
}

std::shared_ptr<ChannelCredentials> LocalCredentials() {
  return std::make_shared<
      Local<ChannelCredentials, ClientHandshake, LocalClientHandshake>>();
}

std::shared_ptr<ServerCredentials> LocalServerCredentials() {
  return std::make_shared<
      Local<ServerCredentials, ServerHandshake, LocalServerHandshake>>();
}

}  // namespace verbena
