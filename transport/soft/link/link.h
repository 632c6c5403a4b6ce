// The shared memory between two queue pairs: a ring of packets each way, and a
// few words each side tells the other.
//
// The memory is an anonymous memory file (memfd) whose descriptor travels over
// a Unix socket. The file has no name, so no third process can open it and
// nothing is left behind after a crash.
//
// The other process may write anything into the memory at any time: read each
// word once, and check it before use.

#ifndef VERBENA_TRANSPORT_SOFT_LINK_LINK_H_
#define VERBENA_TRANSPORT_SOFT_LINK_LINK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/base/unique_fd.h"

namespace verbena::soft {

// Bytes of one ring: half of a small L2 cache, so that copies stay in cache.
inline constexpr size_t kLinkRingBytes = size_t{256} * 1024;

// The side that created the memory is kFirst.
enum class LinkSide { kFirst = 0, kSecond = 1 };

inline LinkSide OtherSide(LinkSide side) {
  return side == LinkSide::kFirst ? LinkSide::kSecond : LinkSide::kFirst;
}

// First byte of a message on the link's socket that means "look at the ring".
// All other first bytes belong to the connection manager.
inline constexpr unsigned char kDoorbell = 0xdb;

// Whether a side takes part in the link.
enum LinkState : uint32_t {
  kLinkNotReady = 0,  // Its queue pair has not reached ready-to-receive.
  kLinkOpen = 1,
  kLinkClosed = 2,   // The side has left for good: error, reset or destroyed.
  kLinkStalled = 3,  // Its path is down: nothing reaches it until it is up.
};

// The changes for which a side wants to be woken.
enum LinkSleep : uint32_t {
  kAwake = 0,  // The side polls: never ring.
  kSleepForPackets = 1,
  kSleepForAcks = 2,  // For packets, acknowledgements and freed space.
};
inline constexpr uint32_t kSleepMask = 3;
// A flag beside LinkSleep: a thread of the side's program waits at a completion
// channel. For unhurried packets the peer rings the bell of that thread
// (SideWords::bell), so that no other thread has to be woken. For everything
// else the peer rings the doorbell, and the engine answers, because the program
// may be busy with other things.
inline constexpr uint32_t kBellOfWaiter = 4;
// The peer has rung that bell, which it does once until the side asks again.
inline constexpr uint32_t kBellRung = 8;

// The words that one side writes for the other, outside its packets. Words that
// are written at different rates have cache lines of their own.
struct SideWords {
  // Bits 63..32: requests of the peer that this side has executed. Bits 31..0:
  // position in 64-byte units up to which it has consumed the peer's ring.
  alignas(64) std::atomic<uint64_t> progress;
  alignas(64) std::atomic<uint32_t> sleep;  // LinkSleep and flags.
  // 1 when this side fences for both before it sleeps, and can be fenced; see
  // LinkEnd::FenceAfterSleep. Beside `sleep` because they are read together.
  std::atomic<uint32_t> fences;
  // The bell at which a thread of this side waits (a WaiterBell::Name), and the
  // number that the peer is to ring it with.
  std::atomic<uint64_t> bell[2];
  std::atomic<uint64_t> bell_number;
  alignas(64) std::atomic<uint32_t> state;  // LinkState.
  // PathMigration::word(). Beside `state` because both change rarely.
  std::atomic<uint32_t> path;
  // 1 if this side takes no response between the packets of a WRITE, and no
  // packet of a WRITE between those of a response.
  std::atomic<uint32_t> takes_whole;
};

// Owns one mapping of a link's memory. The side that made it also owns the
// descriptor, to pass it on, until the memory is attached: what is mapped needs
// no descriptor, and a process may have many links.
//
// Movable, not copyable. Any thread may hold it. Two LinkMemory objects of one
// process that came from the same memory file share one mapping.
class LinkMemory {
 public:
  // Makes the memory. Fails when the process is out of descriptors or memory.
  static absl::StatusOr<LinkMemory> Create();

  // Maps the memory behind `fd`, which a peer sent, and which stays the
  // caller's. Refuses anything but a memory file of the exact size that can
  // neither shrink nor grow: if it shrank, the next access would be the end of
  // this process (SIGBUS).
  static absl::StatusOr<LinkMemory> Map(int fd);

  LinkMemory(LinkMemory&&) noexcept = default;
  LinkMemory& operator=(LinkMemory&&) noexcept = default;
  ~LinkMemory() = default;

  // The memory file, to be passed by SCM_RIGHTS; borrowed. -1 at the side that
  // did not make it, and after TakeDescriptor().
  int fd() const { return fd_.get(); }
  base::UniqueFd TakeDescriptor() { return std::move(fd_); }

  // The ring that `producer` writes: kLinkRingBytes that are mapped twice in a
  // row, so that a packet at the end needs no split.
  std::byte* ring(LinkSide producer) const;

  // A random number that only the two sides know; see PacketHeader::stamp.
  uint64_t secret() const;

  // The words that `writer` writes.
  SideWords& words(LinkSide writer) const;

 private:
  class Mapping;
  explicit LinkMemory(std::shared_ptr<Mapping> mapping)
      : mapping_(std::move(mapping)) {}
  static absl::StatusOr<LinkMemory> MapFile(int fd);

  std::shared_ptr<Mapping> mapping_;
  base::UniqueFd fd_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_LINK_LINK_H_
