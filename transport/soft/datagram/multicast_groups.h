// Multicast groups that queue pairs of this process are attached to.
//
// A group is an IP multicast group. A process joins it with a UDP socket of its
// own, beside those of others at the same port, so every process of every host
// that has joined gets a copy; the sender's host too, and the sender itself if
// it is attached, as on hardware.

#ifndef VERBENA_TRANSPORT_SOFT_DATAGRAM_MULTICAST_GROUPS_H_
#define VERBENA_TRANSPORT_SOFT_DATAGRAM_MULTICAST_GROUPS_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/datagram/datagram.h"

namespace verbena::soft {

// Thread-safe. What comes is handled on the engine's thread.
class MulticastGroups {
 public:
  // `engine` outlives it. With port 0 there are no groups.
  MulticastGroups(Engine& engine, uint16_t port)
      : engine_(engine), port_(port) {}
  MulticastGroups(const MulticastGroups&) = delete;
  MulticastGroups& operator=(const MulticastGroups&) = delete;
  ~MulticastGroups();

  // Attaches queue pair `number` to the group, on each of `interfaces`. May be
  // called again, for more interfaces; each call needs one of Detach(). Returns
  // 0 or an errno: EINVAL for what is no group, EOPNOTSUPP without a port, or
  // why none of the interfaces can join.
  int Attach(uint32_t number, const ibv_gid& group,
             const std::set<uint32_t>& interfaces);
  // Undoes one Attach(). Returns 0, or EINVAL when the queue pair is not
  // attached.
  int Detach(uint32_t number, const ibv_gid& group);

 private:
  using Key = std::array<uint8_t, 16>;  // A GID.
  struct Member {
    int attached = 0;               // Calls of Attach() that were not undone.
    std::set<uint32_t> interfaces;  // The interfaces on which it is a member.
  };
  struct Group {
    base::UniqueFd socket;
    std::map<uint32_t, Member> members;  // By queue pair number.
    // The interfaces on which the socket has joined the group.
    std::set<uint32_t> interfaces;
  };

  int Open(const Key& key, Group& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int Join(const Key& key, Group& group, const std::set<uint32_t>& interfaces)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets a group without members, and returns its socket for Unwatch().
  base::UniqueFd Close(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnReadable(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Deliver(const Group& group, uint32_t interface_index, size_t length)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Waits for a callback of `socket`, which may be waiting for the mutex.
  void Unwatch(const base::UniqueFd& socket) ABSL_LOCKS_EXCLUDED(mutex_);

  Engine& engine_;
  const uint16_t port_;

  base::Mutex mutex_;
  // Hands datagrams on to the sockets of queue pairs.
  base::UniqueFd sender_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, Group> groups_ ABSL_GUARDED_BY(mutex_);
  // The datagram that was received last.
  std::array<std::byte, kDatagramBytesMax + 1> datagram_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DATAGRAM_MULTICAST_GROUPS_H_
