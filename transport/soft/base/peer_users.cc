#include "transport/soft/base/peer_users.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace verbena::soft {

PeerUsers::PeerUsers(std::string_view text) : any_(text == "any") {
  const absl::string_view list(text.data(), text.size());
  for (const absl::string_view word : absl::StrSplit(list, ',')) {
    uid_t user = 0;
    if (absl::SimpleAtoi(word, &user)) others_.insert(user);
  }
}

PeerUsers PeerUsers::FromEnvironment() {
  const char* const text = std::getenv("VERBENA_SOFT_PEERS");
  return PeerUsers(text == nullptr ? "" : text);
}

bool PeerUsers::Allows(uid_t user) const {
  return any_ || user == 0 || user == ::geteuid() || others_.contains(user);
}

bool PeerUsers::AllowsPeerOf(int socket) const {
  const std::optional<uid_t> user = UserOf(socket);
  return user.has_value() && Allows(*user);
}

std::optional<uid_t> PeerUsers::UserOf(int socket) {
  ucred peer = {};
  socklen_t length = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    return std::nullopt;
  }
  // The kernel reports this user for a socket that is not connected.
  constexpr uid_t kNobody = static_cast<uid_t>(-1);
  if (peer.uid == kNobody) return std::nullopt;
  return peer.uid;
}

}  // namespace verbena::soft
