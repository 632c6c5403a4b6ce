#include "transport/soft/link_port.h"

namespace verbena::soft {
namespace {

constexpr uint32_t kRingUnits = kLinkRingBytes / 64;
static_assert((kRingUnits & (kRingUnits - 1)) == 0);
static_assert(PacketBytes(kSegmentBytes) + 64 <= kLinkRingBytes);

PacketHeader& HeaderAt(std::byte* ring, uint32_t unit) {
  return *reinterpret_cast<PacketHeader*>(ring +
                                          size_t{unit & (kRingUnits - 1)} * 64);
}

constexpr uint32_t High(uint64_t word) {
  return static_cast<uint32_t>(word >> 32);
}
constexpr uint32_t Low(uint64_t word) { return static_cast<uint32_t>(word); }

}  // namespace

std::byte* LinkPort::Reserve(uint32_t payload_bytes) {
  // One unit more than the packet: the mark of the packet after it is cleared
  // before this one is published.
  const uint32_t needed = PacketBytes(payload_bytes) / 64 + 1;
  if (produced_ - peer_consumed_ + needed > kRingUnits) {
    NotePeerConsumed(Low(peer_->progress.load(std::memory_order_acquire)));
    if (produced_ - peer_consumed_ + needed > kRingUnits) return nullptr;
  }
  return reinterpret_cast<std::byte*>(&HeaderAt(out_, produced_)) +
         PayloadOffset(payload_bytes);
}

void LinkPort::Publish(const Packet& packet) {
  PacketHeader& header = HeaderAt(out_, produced_);
  const uint32_t end = produced_ + PacketBytes(packet.payload_bytes) / 64;
  HeaderAt(out_, end).mark.store(0, std::memory_order_relaxed);
  header.progress.store(own_progress_.word(), std::memory_order_relaxed);
  header.address.store(packet.address, std::memory_order_relaxed);
  header.key_and_value.store(uint64_t{packet.rkey} << 32 | packet.value,
                             std::memory_order_relaxed);
  header.mark.store(
      uint64_t{packet.number} << 32 | uint64_t{packet.payload_bytes} << 16 |
          uint64_t{packet.flags} << 8 | static_cast<uint64_t>(packet.kind),
      std::memory_order_release);
  produced_ = end;
  told_progress_ = own_progress_;
  published_packet_ = true;
}

LinkPort::Incoming LinkPort::Peek(Packet& packet) {
  PacketHeader& header = HeaderAt(in_, own_progress_.consumed);
  const uint64_t mark = header.mark.load(std::memory_order_acquire);
  if (mark == 0) return Incoming::kNothing;
  packet.kind = static_cast<PacketKind>(mark & 0xff);
  packet.flags = static_cast<uint8_t>(mark >> 8);
  packet.payload_bytes = static_cast<uint32_t>(mark >> 16) & 0xffff;
  packet.number = High(mark);
  // This bound keeps every read of the payload inside the doubled mapping.
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
  if (!NotePeerConsumed(Low(progress))) return Incoming::kBroken;
  return Incoming::kPacket;
}

void LinkPort::Consume(const Packet& packet) {
  own_progress_.consumed += PacketBytes(packet.payload_bytes) / 64;
}

void LinkPort::TellProgress() {
  if (told_progress_ == own_progress_) return;
  own_->progress.store(own_progress_.word(), std::memory_order_release);
  told_progress_ = own_progress_;
  published_progress_ = true;
}

bool LinkPort::ReadPeerProgress(uint32_t& executed) {
  const uint64_t progress = peer_->progress.load(std::memory_order_acquire);
  executed = High(progress);
  return NotePeerConsumed(Low(progress));
}

// The words may be older than the last packet, or the other way round: what is
// not news is not a lie.
bool LinkPort::NotePeerConsumed(uint32_t consumed) {
  const int32_t news = static_cast<int32_t>(consumed - peer_consumed_);
  if (news <= 0) return true;
  if (static_cast<uint32_t>(news) > produced_ - peer_consumed_) return false;
  peer_consumed_ = consumed;
  return true;
}

void LinkPort::RingIfNeeded() {
  if (!published_packet_ && !published_progress_) return;
  // Between what was published and the look at the peer's sleep word there must
  // be a full fence, or both sides can miss each other. It is the sleeper that
  // pays for it where the system allows; see FenceAfterSleep.
  if (can_be_fenced_ && peer_->fences.load(std::memory_order_relaxed) == 1) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    FullFence();
  }
  const uint32_t sleep = peer_->sleep.load(std::memory_order_relaxed);
  if (sleep != kAwake && (published_packet_ || sleep == kSleepForAcks)) {
    RingSlow();
  }
  published_packet_ = false;
  published_progress_ = false;
}

}  // namespace verbena::soft
