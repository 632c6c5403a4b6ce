// The queue pairs of this process by number, and how those that are connected
// manually find each other.

#ifndef VERBENA_TRANSPORT_SOFT_DEVICE_QUEUE_PAIR_DIRECTORY_H_
#define VERBENA_TRANSPORT_SOFT_DEVICE_QUEUE_PAIR_DIRECTORY_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/base/socket_address.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/base/fd_message.h"
#include "transport/soft/base/peer_users.h"
#include "transport/soft/device/device_queue_pair.h"
#include "transport/soft/device/manual_link.h"
#include "transport/soft/link/link_offer.h"
#include "transport/soft/link/number_blocks.h"
#include "transport/soft/remote/network.h"

namespace verbena::soft {

// Whom modify_qp names as the peer.
struct ManualPeer {
  uint32_t number = 0;
  base::SocketAddress host = {};  // Another host; empty for this one.
  // Our address, as the peer knows it, if it is on another host.
  base::SocketAddress source = {};
};

// Two queue pairs that name each other are joined whichever comes first, and in
// whatever process of this host they are: one makes the link, the other finds
// it. In one process the first makes it. Of two processes it is the one with
// the lower number; it sends the memory file and a socket to the process that
// owns the other number, where they wait until that queue pair wants them.
// Between hosts it is likewise, by TCP; there the same numbers may meet, and
// the lower address decides.
//
// Thread-safe. The sockets of the numbers are read on the engine's thread, and
// what they say is validated before it is used.
class QueuePairDirectory {
 public:
  QueuePairDirectory(Engine& engine, Network& network, const PeerUsers& users);
  QueuePairDirectory(const QueuePairDirectory&) = delete;
  QueuePairDirectory& operator=(const QueuePairDirectory&) = delete;

  // Gives `qp` a number that is unique on the host; 0 when there are too many.
  uint32_t Add(DeviceQueuePair* qp);
  void Remove(uint32_t number);

  // Makes or finds the link from `own` to `peer`. Null when there is nobody of
  // that number on this host, or when it is for the peer to make the link: then
  // the engine ticks `own` when it has come, to call Take().
  std::unique_ptr<ManualLink> Connect(uint32_t own, const ManualPeer& peer);
  // The link that the peer has made for `own`; null until then.
  std::unique_ptr<ManualLink> Take(uint32_t own, const ManualPeer& peer);
  // `number` is not connected manually: from now on no peer's link is kept for
  // it.
  void RefuseOffers(uint32_t number);
  // `number` starts anew: closes the links that it has made for others in this
  // process, and peers may make links for it.
  void DropLinksOf(uint32_t number);

  void ForEach(const std::function<void(DeviceQueuePair&)>& call);

 private:
  // For whom, from whom, and from which host.
  using Key = std::tuple<uint32_t, uint32_t, std::array<uint8_t, 16>>;
  struct HalfLink {
    uint64_t age;
    std::unique_ptr<ManualLink> link;
    // When another process's offer has waited long enough; max() for what this
    // process made itself.
    Clock::TimePoint expires = Clock::TimePoint::max();
  };

  static Key KeyOf(uint32_t own, const ManualPeer& peer);
  std::unique_ptr<ManualLink> TakeLocked(uint32_t own, const ManualPeer& peer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::unique_ptr<ManualLink> ConnectToProcess(uint32_t own, uint32_t peer);
  void OnReadable(int socket);
  // What a peer has made for us, unless nobody here has that number.
  void Keep(uint32_t own, const ManualPeer& peer,
            std::unique_ptr<ManualLink> link);
  // What is taken out is destroyed without the mutex.
  using Dropped = std::vector<std::unique_ptr<ManualLink>>;
  Dropped TakeAll(uint32_t own) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What is too much for `own`.
  Dropped TakeSurplus(uint32_t own) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Dropped TakeExpired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartExpiry() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The queue pair of that number, unless it is one without links; or null.
  DeviceQueuePair* FindConnected(uint32_t number)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::unique_ptr<ManualLink> ConnectToHost(uint32_t own,
                                            const ManualPeer& peer);
  void TakeOffer(const LinkOffer& offer, FdMessage message);
  void TakeTcpOffer(const LinkOffer& offer, ForeignFd tcp);

  Engine& engine_;
  Network& network_;
  const PeerUsers& users_;

  base::Mutex mutex_;
  NumberBlocks numbers_ ABSL_GUARDED_BY(mutex_);
  // By number.
  std::unordered_map<uint32_t, DeviceQueuePair*> queue_pairs_
      ABSL_GUARDED_BY(mutex_);
  uint64_t next_age_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<Key, HalfLink> half_links_ ABSL_GUARDED_BY(mutex_);
  std::unordered_set<uint32_t> refusing_ ABSL_GUARDED_BY(mutex_);
  bool expiry_runs_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DEVICE_QUEUE_PAIR_DIRECTORY_H_
