// The users of this host whose processes this one talks to.

#ifndef VERBENA_TRANSPORT_SOFT_BASE_PEER_USERS_H_
#define VERBENA_TRANSPORT_SOFT_BASE_PEER_USERS_H_

#include <sys/types.h>

#include <optional>
#include <set>
#include <string_view>

namespace verbena::soft {

// The names of our sockets are anybody's to take and to connect to. So the
// kernel is asked whose process is at the other end before that is believed,
// and before anything is read from it.
//
// A value. Without being told it allows the user that this process has at the
// time of the question, and root, who could do anything to it anyway.
class PeerUsers {
 public:
  PeerUsers() = default;
  // Allows others besides: `text` is "any", or numbers of users with commas in
  // between. Words that are neither allow nobody.
  explicit PeerUsers(std::string_view text);
  // Makes one of the text of VERBENA_SOFT_PEERS.
  static PeerUsers FromEnvironment();

  bool Allows(uid_t user) const;
  // Whether it allows the user of the process that has connected `socket` from
  // the other end, or that has called listen() there. False when the kernel
  // does not know that process.
  bool AllowsPeerOf(int socket) const;
  // The user of that process; nothing when the kernel does not know.
  static std::optional<uid_t> UserOf(int socket);

 private:
  bool any_ = false;
  std::set<uid_t> others_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_BASE_PEER_USERS_H_
