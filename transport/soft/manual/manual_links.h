// How queue pairs that are connected manually find each other.

#ifndef VERBENA_TRANSPORT_SOFT_MANUAL_MANUAL_LINKS_H_
#define VERBENA_TRANSPORT_SOFT_MANUAL_MANUAL_LINKS_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/base/socket_address.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/base/fd_message.h"
#include "transport/soft/base/peer_users.h"
#include "transport/soft/device/device_queue_pair.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/link/link_offer.h"
#include "transport/soft/manual/manual_link.h"
#include "transport/soft/remote/network.h"

namespace verbena::soft {

// The peer that modify_qp names.
struct ManualPeer {
  uint32_t number = 0;
  base::SocketAddress host = {};  // Another host; empty for this one.
  // Our own address as the peer knows it, if the peer is on another host.
  base::SocketAddress source = {};
};

// Two queue pairs that name each other are joined whichever comes first, and in
// whatever process of this host they are: one makes the link, the other finds
// it. Within a process the one that comes first makes it. Between processes it
// is the one with the lower number, which sends the memory file and a socket to
// the process that owns the other number; there they wait until that queue pair
// wants them. Between hosts it is the one with the lower number too, and the
// link leads over TCP; both may have the same number there, and then the lower
// address decides.
//
// Thread-safe. The sockets of the numbers are read on the engine's thread, and
// what they say is validated before it is used.
class ManualLinks {
 public:
  // The links of SoftDevice::Get(). Like the device they are never destroyed.
  static ManualLinks& Get();

  explicit ManualLinks(SoftDevice& device);
  ManualLinks(const ManualLinks&) = delete;
  ManualLinks& operator=(const ManualLinks&) = delete;

  // From Add() to Remove() peers find `qp` by its number, and may make links
  // for it.
  void Add(DeviceQueuePair* qp);
  void Remove(uint32_t number);

  // Makes or finds the link from `own` to `peer`. Returns null when there is
  // nobody of that number on this host, or when it is for the peer to make the
  // link: then the engine ticks `own` when the link has come, so that it calls
  // Take(). Waits up to a second for a process whose socket is full, if it may.
  std::unique_ptr<ManualLink> Connect(uint32_t own, const ManualPeer& peer,
                                      bool may_wait = true);
  // Whether it is for the peer, on another host, to make the link.
  static bool IsMadeByOtherHost(uint32_t own, const ManualPeer& peer);
  // Returns the link that the peer has made for `own`; null as long as there is
  // none.
  std::unique_ptr<ManualLink> Take(uint32_t own, const ManualPeer& peer);
  // `number` is not connected manually: from now on no peer's link is kept for
  // it.
  void RefuseOffers(uint32_t number);
  // `number` starts anew: closes the links that it has made for others in this
  // process, and peers may make links for it.
  void DropLinksOf(uint32_t number);

 private:
  // The number that a link is for, the number that has made it, and the host of
  // the latter.
  using Key = std::tuple<uint32_t, uint32_t, std::array<uint8_t, 16>>;
  struct Member {
    DeviceQueuePair* queue_pair;
    bool refuses;  // No links of peers are kept for it.
  };
  // An end of a link that waits for its queue pair.
  struct HalfLink {
    uint64_t age;  // Counts upwards: the oldest has the least.
    std::unique_ptr<ManualLink> link;
    // The time at which the offer of another process has waited long enough;
    // max() for a link that this process made itself.
    Clock::TimePoint expires = Clock::TimePoint::max();
  };

  static Key KeyOf(uint32_t own, const ManualPeer& peer);
  std::unique_ptr<ManualLink> TakeLocked(uint32_t own, const ManualPeer& peer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::unique_ptr<ManualLink> ConnectToProcess(uint32_t own, uint32_t peer,
                                               bool may_wait);
  void OnReadable(int socket);
  // Keeps a link that a peer has made for `own`, unless nobody here has that
  // number or wants such a link.
  void Keep(uint32_t own, const ManualPeer& peer,
            std::unique_ptr<ManualLink> link);
  // Links that are taken out, to be destroyed when the mutex has been released.
  using Dropped = std::vector<std::unique_ptr<ManualLink>>;
  Dropped TakeAll(uint32_t own) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the oldest link for `own` out if there are too many.
  Dropped TakeSurplus(uint32_t own) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Dropped TakeExpired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartExpiry() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::unique_ptr<ManualLink> ConnectToHost(uint32_t own,
                                            const ManualPeer& peer);
  void TakeOffer(const LinkOffer& offer, FdMessage message);
  void TakeTcpOffer(const LinkOffer& offer, ForeignFd tcp);

  Engine& engine_;
  Network& network_;
  const PeerUsers& users_;

  base::Mutex mutex_;
  std::unordered_map<uint32_t, Member> members_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_age_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<Key, HalfLink> half_links_ ABSL_GUARDED_BY(mutex_);
  bool expiry_runs_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_MANUAL_MANUAL_LINKS_H_
