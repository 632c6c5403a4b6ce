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
  ucred peer = {};
  socklen_t length = sizeof(peer);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         Allows(peer.uid);
}

}  // namespace verbena::soft
