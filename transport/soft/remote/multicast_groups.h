// Multicast groups that queue pairs of this process are attached to.
//
// A group is an IP multicast group. A process joins it with a UDP socket of its
// own, beside those of others at the same port, so every process of every host
// that has joined gets a copy; the sender's host too, and the sender itself if
// it is attached, as on hardware.

#ifndef VERBENA_TRANSPORT_SOFT_REMOTE_MULTICAST_GROUPS_H_
#define VERBENA_TRANSPORT_SOFT_REMOTE_MULTICAST_GROUPS_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>

#include "transport/base/unique_fd.h"
#include "transport/soft/address/datagram.h"
#include "transport/soft/base/engine.h"

namespace verbena::soft {

// Thread-safe. What comes is handled on the engine's thread.
class MulticastGroups {
 public:
  // `engine` outlives it. `port` 0: there are no groups.
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
  // EINVAL when it is not attached.
  int Detach(uint32_t number, const ibv_gid& group);

 private:
  using Key = std::array<uint8_t, 16>;  // A GID.
  struct Member {
    int attached = 0;  // How often.
    std::set<uint32_t> interfaces;
  };
  struct Group {
    base::UniqueFd socket;
    std::map<uint32_t, Member> members;  // By number.
    std::set<uint32_t> interfaces;       // Where it is joined.
  };

  // These REQUIRE mutex_ to be held.
  int Open(const Key& key, Group& group);
  int Join(const Key& key, Group& group, const std::set<uint32_t>& interfaces);
  // Forgets a group without members; its socket is for Unwatch().
  base::UniqueFd Close(const Key& key);
  void OnReadable(const Key& key);
  void Deliver(const Group& group, uint32_t interface_index, size_t length);

  void Unwatch(const base::UniqueFd& socket);  // Without mutex_.

  Engine& engine_;
  const uint16_t port_;

  std::mutex mutex_;
  // State below is protected by mutex_.
  base::UniqueFd sender_;  // To queue pairs.
  std::map<Key, Group> groups_;
  std::array<std::byte, kDatagramBytesMax + 1> datagram_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_REMOTE_MULTICAST_GROUPS_H_
