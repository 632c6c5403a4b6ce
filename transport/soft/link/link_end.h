// An end of a link: writes packets into one ring, reads the other.

#ifndef VERBENA_TRANSPORT_SOFT_LINK_LINK_END_H_
#define VERBENA_TRANSPORT_SOFT_LINK_LINK_END_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/base/optimization.h"
#include "transport/soft/base/waiter_bell.h"
#include "transport/soft/link/link.h"
#include "transport/soft/link/packet.h"

namespace verbena::soft {

// The link as its queue pair uses it.
//
// Each ring has one writer and one reader. A packet's words and payload are
// written before its stamp, which the writer releases and the reader acquires;
// room in the ring is given back by a progress word, or by a packet the other
// way, with the same pairing. So neither side touches what the other still
// uses.
//
// Not thread-safe: protected by the queue pair's lock. A peer that writes
// nonsense shows as kBroken; nothing outside the link's memory is ever read or
// written, whatever the peer does.
class LinkEnd {
 public:
  enum class Incoming { kNothing, kPacket, kBroken };

  bool attached() const { return memory_.has_value(); }
  void Attach(LinkMemory memory, LinkSide side, int socket_fd);
  // Closes this side. The caller drops the memory that is returned when nobody
  // watches it any more; see watch().
  std::optional<LinkMemory> Detach();

  // The two words of the peer that change when there is something to do: the
  // stamp of the next packet, and its progress. They are for polls, which look
  // without the lock that protects everything else (IdleWatch).
  struct Watch {
    const std::atomic<uint64_t>* stamp;
    const std::atomic<uint64_t>* progress;
    uint64_t stamp_awaited;
    uint64_t progress_seen;
  };
  Watch watch() const;

  // Sending.

  // Returns where the payload of the next packet is to be put; null when the
  // ring has no room.
  std::byte* Reserve(uint32_t payload_bytes);
  // Sends the packet that was reserved. REQUIRES: its payload is in place.
  void Publish(const Packet& packet);

  // Receiving. The packet stays in the ring until Consume().

  Incoming Peek(Packet& packet) { return PeekAt(0, packet); }
  // Looks at the packet that begins `ahead_units` of 64 bytes behind the next
  // one: the sum of PacketUnits() of packets that were peeked already.
  Incoming PeekAt(uint32_t ahead_units, Packet& packet);
  void Consume(const Packet& packet);
  // Whether Peek() finds something.
  bool has_incoming() const {
    return HeaderAt(in_, own_progress_.consumed)
               .stamp.load(std::memory_order_relaxed) ==
           secret_ + own_progress_.consumed;
  }

  // Progress.

  // Requests of the peer executed so far; told to it with the next packet.
  void set_executed(uint32_t count) { own_progress_.executed = count; }
  // Whether the peer has been told all.
  bool progress_told() const { return told_progress_ == own_progress_; }
  // Tells the peer by SideWords what no packet has told it yet.
  void TellProgress();
  // Whether so much of the ring has been consumed that the peer should know
  // now.
  bool ShouldTellProgress() const {
    return own_progress_.consumed - told_progress_.consumed >= kTellUnits;
  }
  // Takes note of the peer's SideWords::progress; false when a correct peer
  // cannot have written it. Sets `executed` to the requests that the peer says
  // it has executed, which is for the caller to check.
  bool ReadPeerProgress(uint32_t& executed);

  // Changes whenever a packet is sent or taken.
  uint32_t position() const { return produced_ + own_progress_.consumed; }

  // State and sleep.

  void SetState(LinkState state);
  LinkState peer_state() const;

  // Tells the peer PathMigration::word().
  void SetPath(uint32_t word) {
    own_->path.store(word, std::memory_order_release);
  }
  uint32_t peer_path() const {
    return peer_->path.load(std::memory_order_acquire);
  }

  // Asks the peer for whole WRITEs and whole responses: see
  // SideWords::takes_whole. Before SetState(kLinkOpen).
  void AskForWhole() { own_->takes_whole.store(1, std::memory_order_relaxed); }
  bool peer_takes_whole() const {
    return peer_->takes_whole.load(std::memory_order_relaxed) != 0;
  }

  // Asks the peer to ring for `wanted`, a LinkSleep with the flags
  // kBellOfWaiter and kBellRung. Look for work once more after
  // FenceAfterSleep(): what came before the peer knew rings no bell.
  void SetSleep(uint32_t wanted);
  // Returns the value of the last SetSleep(), less what the peer has rung for
  // after that.
  uint32_t sleep() const;
  static void FenceAfterSleep();
  // Whether other processes' expedited barriers reach this one. The first call
  // arranges for it.
  static bool CanBeFenced();

  // Which bell the peer is to ring for kBellOfWaiter, and with what number.
  void SetBell(const WaiterBell::Name& name, uint64_t number);
  // Whether `ring` can come from the peer.
  bool IsFromPeer(const WaiterBell::Ring& ring) const {
    return attached() && ring.secret == secret_;
  }

  // Rings for the peer if it sleeps and something for it was published.
  void RingIfNeeded();
  // Rings the doorbell, so that the peer's engine answers, if the peer has
  // asked for the bell of its waiter: its program was to answer, but has not
  // come, or was not even rung for. A peer that has asked for the doorbell has
  // heard it already, and hears nothing more.
  void Insist();
  // Rings the doorbell even if the peer polls: it is to look at what no packet
  // says. Does nothing without a link.
  void RingAlways();

 private:
  struct Progress {
    uint32_t executed = 0;
    uint32_t consumed = 0;  // In units of 64 bytes, modulo 2^32.
    bool operator==(const Progress&) const = default;
    uint64_t word() const { return uint64_t{executed} << 32 | consumed; }
  };
  static constexpr uint32_t kRingUnits = kLinkRingBytes / 64;
  // Cache lines of a packet that are fetched before it is copied.
  static constexpr uint32_t kLinesAhead = 16;
  // Space that is consumed before the peer is told of it in the middle of a
  // pass.
  static constexpr uint32_t kTellUnits = kRingUnits / 4;
  static_assert((kRingUnits & (kRingUnits - 1)) == 0);
  static_assert(PacketBytes(kSegmentBytes) <= kLinkRingBytes);

  static PacketHeader& HeaderAt(std::byte* ring, uint32_t unit) {
    return *reinterpret_cast<PacketHeader*>(
        ring + size_t{unit & (kRingUnits - 1)} * 64);
  }
  static constexpr uint32_t High(uint64_t word) {
    return static_cast<uint32_t>(word >> 32);
  }
  static constexpr uint32_t Low(uint64_t word) {
    return static_cast<uint32_t>(word);
  }

  bool HasRoom(uint32_t units) const {
    return produced_ - peer_consumed_ + units <= kRingUnits;
  }
  static void ClearStampBehind(std::byte* packet, uint32_t payload_bytes);
  static void FullFence() { __sync_synchronize(); }
  bool NotePeerConsumed(uint32_t consumed);
  void RingSlow(uint32_t sleep);
  void RingDoorbell();
  bool RingWaiter();

  std::optional<LinkMemory> memory_;
  int socket_fd_ = -1;
  SideWords* own_ = nullptr;
  SideWords* peer_ = nullptr;
  std::byte* out_ = nullptr;    // The ring we write.
  std::byte* in_ = nullptr;     // The ring we read.
  uint64_t secret_ = 0;         // See PacketHeader::stamp.
  bool can_be_fenced_ = false;  // The peer's fences reach this process.

  // In units of 64 bytes, modulo 2^32. They are at most a ring apart.
  uint32_t produced_ = 0;       // End of the last packet we published.
  uint32_t peer_consumed_ = 0;  // Up to where the peer has made room.
  uint64_t progress_seen_ = 0;  // The peer's word, when last read.

  Progress own_progress_;
  Progress told_progress_;  // As last told to the peer.
  // What was published since the last RingIfNeeded().
  bool published_packet_ = false;
  bool published_hurried_ = false;  // A packet that is not kPacketUnhurried.
  bool published_progress_ = false;
};

inline std::byte* LinkEnd::Reserve(uint32_t payload_bytes) {
  const uint32_t needed = PacketUnits(payload_bytes);
  if (!HasRoom(needed)) {
    // Acquires the peer's reads of what it has consumed, which is written over
    // next. An impossible number gives no room, and ReadPeerProgress() finds
    // it.
    NotePeerConsumed(Low(peer_->progress.load(std::memory_order_acquire)));
    if (!HasRoom(needed)) return nullptr;
  }
  return reinterpret_cast<std::byte*>(&HeaderAt(out_, produced_)) +
         PayloadOffset(payload_bytes);
}

// Where a packet may begin later, the peer looks for a stamp. An old header may
// stand there, and a payload that ends in the first bytes of its stamp would
// leave the others: together they could be the stamp that the peer waits for.
inline void LinkEnd::ClearStampBehind(std::byte* packet,
                                      uint32_t payload_bytes) {
  const uint32_t end = PayloadOffset(payload_bytes) + payload_bytes;
  const uint32_t begun = end % 64;
  if (ABSL_PREDICT_TRUE(begun >= sizeof(PacketHeader::stamp) || begun == 0)) {
    return;
  }
  std::memset(packet + end, 0, sizeof(PacketHeader::stamp) - begun);
}

inline void LinkEnd::Publish(const Packet& packet) {
  PacketHeader& header = HeaderAt(out_, produced_);
  ClearStampBehind(reinterpret_cast<std::byte*>(&header), packet.payload_bytes);
  header.kind_and_number.store(
      uint64_t{packet.number} << 32 | uint64_t{packet.payload_bytes} << 16 |
          uint64_t{packet.flags} << 8 | static_cast<uint64_t>(packet.kind),
      std::memory_order_relaxed);
  header.progress.store(own_progress_.word(), std::memory_order_relaxed);
  header.address.store(packet.address, std::memory_order_relaxed);
  header.key_and_value.store(uint64_t{packet.rkey} << 32 | packet.value,
                             std::memory_order_relaxed);
  header.stamp.store(secret_ + produced_, std::memory_order_release);
  const uint32_t units = PacketUnits(packet.payload_bytes);
  produced_ += units;
  told_progress_ = own_progress_;
  published_packet_ = true;
  published_hurried_ |= (packet.flags & kPacketUnhurried) == 0;
}

inline LinkEnd::Incoming LinkEnd::PeekAt(uint32_t ahead_units, Packet& packet) {
  const uint32_t position = own_progress_.consumed + ahead_units;
  PacketHeader& header = HeaderAt(in_, position);
  if (header.stamp.load(std::memory_order_acquire) != secret_ + position) {
    return Incoming::kNothing;
  }
  const uint64_t mark = header.kind_and_number.load(std::memory_order_relaxed);
  packet.kind = static_cast<PacketKind>(mark & 0xff);
  packet.flags = static_cast<uint8_t>(mark >> 8);
  packet.payload_bytes = static_cast<uint32_t>(mark >> 16) & 0xffff;
  packet.number = High(mark);
  const uint32_t units = PacketUnits(packet.payload_bytes);
  for (uint32_t i = 1; i < std::min(units, kLinesAhead); ++i) {
    __builtin_prefetch(reinterpret_cast<std::byte*>(&header) + size_t{i} * 64);
  }
  // The bound keeps every read of the payload inside the doubled mapping.
  if (packet.payload_bytes > kSegmentBytes) return Incoming::kBroken;
  packet.payload = reinterpret_cast<const std::byte*>(&header) +
                   PayloadOffset(packet.payload_bytes);
  packet.address = header.address.load(std::memory_order_relaxed);
  const uint64_t key_and_value =
      header.key_and_value.load(std::memory_order_relaxed);
  packet.rkey = High(key_and_value);
  packet.value = Low(key_and_value);
  const uint64_t progress = header.progress.load(std::memory_order_relaxed);
  packet.executed = High(progress);
  return NotePeerConsumed(Low(progress)) ? Incoming::kPacket
                                         : Incoming::kBroken;
}

inline void LinkEnd::Consume(const Packet& packet) {
  own_progress_.consumed += PacketUnits(packet.payload_bytes);
}

// Takes note of how much of the ring the peer has consumed; false when it
// cannot have consumed so much. The progress word may be older than the last
// packet, or the packet older than the word, so a smaller number than before is
// no mistake.
inline bool LinkEnd::NotePeerConsumed(uint32_t consumed) {
  const int32_t news = static_cast<int32_t>(consumed - peer_consumed_);
  if (news <= 0) return true;
  if (static_cast<uint32_t>(news) > produced_ - peer_consumed_) return false;
  peer_consumed_ = consumed;
  return true;
}

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_LINK_LINK_END_H_
