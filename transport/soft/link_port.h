// One side's end of a link: writes packets into one ring, reads the other.

#ifndef VERBENA_TRANSPORT_SOFT_LINK_PORT_H_
#define VERBENA_TRANSPORT_SOFT_LINK_PORT_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "transport/soft/link.h"
#include "transport/soft/packet.h"

namespace verbena::soft {

// The link as its queue pair uses it.
//
// Not thread-safe: protected by the queue pair's lock. A peer that writes
// nonsense shows as kBroken; the port never reads or writes outside the link's
// memory whatever the peer does.
class LinkPort {
 public:
  enum class Incoming { kNothing, kPacket, kBroken };

  bool attached() const { return memory_.has_value(); }
  void Attach(LinkMemory memory, LinkSide side, int socket_fd);
  void Detach();

  // Sending.

  // Where to put the payload of the next packet; null when the ring has no
  // room.
  std::byte* Reserve(uint32_t payload_bytes);
  // Sends the packet that was reserved. Its payload is in place already.
  void Publish(const Packet& packet);

  // Receiving. The packet stays in the ring until Consume().

  Incoming Peek(Packet& packet);
  void Consume(const Packet& packet);

  // Progress.

  // Requests of the peer executed so far; told to it with the next packet.
  void set_executed(uint32_t count) { own_progress_.executed = count; }
  // Tells the peer by SideWords what no packet has told it yet.
  void TellProgress();
  // Whether so much of the ring has been consumed that the peer should know
  // now.
  bool ShouldTellProgress() const {
    return own_progress_.consumed - told_progress_.consumed >= kTellUnits;
  }
  // Takes note of the peer's SideWords::progress; false when it is impossible.
  // `executed` is what the peer says it has executed.
  bool ReadPeerProgress(uint32_t& executed);

  // State and sleep.

  void SetState(LinkState state);
  LinkState peer_state() const;

  // Asks the peer to ring for `wanted`. Look for work once more after
  // FenceAfterSleep(): what came before the peer knew rings no bell.
  void SetSleep(LinkSleep wanted);
  LinkSleep sleep() const;
  static void FenceAfterSleep();

  // Rings the peer's doorbell if it sleeps and something for it was published.
  void RingIfNeeded();

 private:
  struct Progress {
    uint32_t executed = 0;
    uint32_t consumed = 0;  // In units of 64 bytes, modulo 2^32.
    bool operator==(const Progress&) const = default;
    uint64_t word() const { return uint64_t{executed} << 32 | consumed; }
  };
  static constexpr uint32_t kTellUnits = kLinkRingBytes / 4 / 64;

  static void FullFence() { __sync_synchronize(); }
  bool NotePeerConsumed(uint32_t consumed);
  void RingSlow();

  std::optional<LinkMemory> memory_;
  int socket_fd_ = -1;
  SideWords* own_ = nullptr;
  SideWords* peer_ = nullptr;
  std::byte* out_ = nullptr;    // The ring we write.
  std::byte* in_ = nullptr;     // The ring we read.
  bool can_be_fenced_ = false;  // By the peer; see FenceAfterSleep.

  // In units of 64 bytes, modulo 2^32. At most a ring apart.
  uint32_t produced_ = 0;       // End of the last packet we published.
  uint32_t peer_consumed_ = 0;  // Up to where the peer has made room.

  Progress own_progress_;
  Progress told_progress_;           // As the peer was last told.
  bool published_packet_ = false;    // Since the last RingIfNeeded().
  bool published_progress_ = false;  // Likewise.
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_LINK_PORT_H_
