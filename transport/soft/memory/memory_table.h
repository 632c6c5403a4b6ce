// The memory regions of the device: which key opens which bytes, for what.

#ifndef VERBENA_TRANSPORT_SOFT_MEMORY_MEMORY_TABLE_H_
#define VERBENA_TRANSPORT_SOFT_MEMORY_MEMORY_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"

namespace verbena::soft {

// Maps keys to regions. A key is 32 random bits, the same for lkey and rkey, so
// that a peer cannot guess one; its high half is the index of its slot in the
// table.
//
// A region has an owner, which only those who use it can name: the protection
// domain. Peers name memory by addresses that need not be those where it lies:
// the difference of the two is the region's shift.
//
// Thread-safe. Translate() takes no lock. A region that is removed while
// another thread translates its key is either found or not; see
// SoftDevice::WaitForDataPath() for how dereg_mr waits for copies under way. A
// key that is opened again, for another region, must not be translated
// meanwhile: ReregMr() waits in between.
class MemoryTable {
 public:
  static constexpr uint32_t kRegionsMax = 1 << 15;

  MemoryTable();

  // From now on the keys of the first 128 regions have no more than 24 bits,
  // all of them random, as long as there are no more regions: for programs that
  // write keys in six hexadecimal digits, which are enough for those of NICs.
  void UseShortKeys();

  // The region that a key opens. Its memory is at address + shift, modulo 2^64.
  // REQUIRES: address + length does not wrap.
  struct Region {
    const void* owner;
    uint64_t address;
    uint64_t length;
    unsigned int access;
    uint64_t shift;
  };

  // Returns the key of a new region, or 0 when the table is full.
  uint32_t Add(const void* owner, uint64_t address, uint64_t length,
               unsigned int access, uint64_t shift = 0);
  void Remove(uint32_t key);

  // The region that a key opens, if any.
  std::optional<Region> Find(uint32_t key);

  // For windows, whose keys come and go. Reserve() takes a slot of the table
  // and returns a key of it, or 0 when the table is full; Release() gives it
  // back. While the slot is closed, Open() opens it with any key that has the
  // same high half.
  uint32_t Reserve() { return ReserveAny(~uint32_t{0}); }
  // Like Reserve(), but the low eight bits of the key are zero.
  uint32_t ReserveForWindow() { return ReserveAny(~uint32_t{0xff}); }
  void Open(uint32_t key, const Region& region);
  void Close(uint32_t key);
  void Release(uint32_t key);

  // Returns where [address, address + length) lies, if `key` names a region of
  // `owner` that contains it and allows all of `access` (IBV_ACCESS_*); else
  // null.
  // REQUIRES: length > 0.
  std::byte* Translate(uint32_t key, const void* owner, uint64_t address,
                       uint64_t length, unsigned int access) const;

 private:
  static constexpr uint32_t kShortKeysMax = 128;
  static constexpr uint32_t kShortKeyMask = 0xffffff;

  // A key of random bits where `mask` has some.
  uint32_t ReserveAny(uint32_t mask);

  // Half of the slots stay free, so that a random key soon finds a free one; of
  // those that short keys have, too.
  static constexpr uint32_t kSlots = 2 * kRegionsMax;
  static constexpr uint32_t PlaceOf(uint32_t key) { return key >> 16; }
  static_assert(kSlots == 1 << 16);

  // Written under mutex_, read without it: `key` is cleared first and set last.
  // Each field is stored with release and loaded with acquire. So a reader that
  // has loaded a field of a later region sees, when it looks at `key` once
  // more, that it was cleared, or what it has become.
  struct alignas(64) Slot {
    std::atomic<uint32_t> key;  // 0: closed.
    std::atomic<uint32_t> access;
    std::atomic<uint64_t> address;
    std::atomic<uint64_t> length;
    std::atomic<uint64_t> shift;
    std::atomic<const void*> owner;
    bool taken ABSL_GUARDED_BY(&MemoryTable::mutex_);
  };
  struct Unmap {
    void operator()(Slot* slots) const;
  };

  // Mapped memory, zero at first: a slot is closed until it is opened, and
  // pages that were never touched cost nothing.
  std::unique_ptr<Slot[], Unmap> slots_;

  base::Mutex mutex_;
  std::random_device random_ ABSL_GUARDED_BY(mutex_);
  uint32_t regions_ ABSL_GUARDED_BY(mutex_) = 0;
  bool short_keys_ ABSL_GUARDED_BY(mutex_) = false;
};

inline std::byte* MemoryTable::Translate(uint32_t key, const void* owner,
                                         uint64_t address, uint64_t length,
                                         unsigned int access) const {
  const Slot& slot = slots_[PlaceOf(key)];
  if (key == 0 || slot.key.load(std::memory_order_acquire) != key) {
    return nullptr;
  }
  const uint32_t allowed = slot.access.load(std::memory_order_acquire);
  const uint64_t start = slot.address.load(std::memory_order_acquire);
  const uint64_t size = slot.length.load(std::memory_order_acquire);
  const uint64_t shift = slot.shift.load(std::memory_order_acquire);
  const bool same_owner = slot.owner.load(std::memory_order_acquire) == owner;
  // The slot may have been given to another region meanwhile.
  if (slot.key.load(std::memory_order_relaxed) != key) return nullptr;
  if (!same_owner || (allowed & access) != access) return nullptr;
  // In this order nothing can wrap.
  if (address < start || length > size || address - start > size - length) {
    return nullptr;
  }
  return reinterpret_cast<std::byte*>(address + shift);
}

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_MEMORY_MEMORY_TABLE_H_
