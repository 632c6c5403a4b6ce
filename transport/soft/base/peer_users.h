// Which users of this host a process has to do with.

#ifndef VERBENA_TRANSPORT_SOFT_BASE_PEER_USERS_H_
#define VERBENA_TRANSPORT_SOFT_BASE_PEER_USERS_H_

#include <sys/types.h>

#include <set>
#include <string_view>

namespace verbena::soft {

// The names of our sockets are anybody's to take and to connect to. So the
// kernel is asked whose process is at the other end before that is believed,
// and before anything is read from it.
//
// A value. By itself it allows the user of this process, as that is at the time
// of the question, and root, who could do anything to it anyway.
class PeerUsers {
 public:
  PeerUsers() = default;
  // Allows more: `text` is "any", or numbers of users with commas in between.
  // What is neither allows nobody.
  explicit PeerUsers(std::string_view text);
  // The same with the text of VERBENA_SOFT_PEERS.
  static PeerUsers FromEnvironment();

  bool Allows(uid_t user) const;
  // The process that has connected `socket` from the other end, or that has
  // called listen() there. False when the kernel does not know.
  bool AllowsPeerOf(int socket) const;

 private:
  bool any_ = false;
  std::set<uid_t> others_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_BASE_PEER_USERS_H_
