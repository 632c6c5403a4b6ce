#include "transport/soft/memory/memory_table.h"

#include <sys/mman.h>

#include <type_traits>

#include "transport/base/check.h"

namespace verbena::soft {

// The kernel's zeros are closed slots, so no constructor has to touch the
// pages.
MemoryTable::MemoryTable() {
  static_assert(std::is_trivially_destructible_v<Slot>);
  void* const zeros =
      mmap(nullptr, kSlots * sizeof(Slot), PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(zeros != MAP_FAILED) << "out of memory for the table of regions";
  slots_.reset(static_cast<Slot*>(zeros));
}

void MemoryTable::Unmap::operator()(Slot* slots) const {
  munmap(slots, kSlots * sizeof(Slot));
}

uint32_t MemoryTable::Add(const void* owner, uint64_t address, uint64_t length,
                          unsigned int access, uint64_t shift) {
  const uint32_t key = Reserve();
  if (key != 0) Open(key, {owner, address, length, access, shift});
  return key;
}

void MemoryTable::Remove(uint32_t key) {
  Close(key);
  Release(key);
}

void MemoryTable::UseShortKeys() {
  const base::MutexLock lock(mutex_);
  short_keys_ = true;
}

// Draws keys until one has a free slot. Half of the slots stay free, so that
// does not take long.
uint32_t MemoryTable::ReserveAny(uint32_t mask) {
  const base::MutexLock lock(mutex_);
  if (regions_ == kRegionsMax) return 0;
  // Short keys have 256 of the slots, of which half stay free as well.
  if (short_keys_ && regions_ < kShortKeysMax) mask &= kShortKeyMask;
  for (;;) {
    const uint32_t key = random_() & mask;
    Slot& slot = slots_[PlaceOf(key)];
    if (key == 0 || slot.taken) continue;
    slot.taken = true;
    ++regions_;
    return key;
  }
}

void MemoryTable::Release(uint32_t key) {
  const base::MutexLock lock(mutex_);
  Slot& slot = slots_[PlaceOf(key)];
  CHECK(slot.taken && slot.key.load(std::memory_order_relaxed) == 0)
      << "a place was released twice, or while it was open";
  slot.taken = false;
  --regions_;
}

void MemoryTable::Open(uint32_t key, const Region& region) {
  const base::MutexLock lock(mutex_);
  Slot& slot = slots_[PlaceOf(key)];
  CHECK(slot.taken && slot.key.load(std::memory_order_relaxed) == 0)
      << "a place was opened twice, or without being reserved";
  slot.access.store(region.access, std::memory_order_release);
  slot.address.store(region.address, std::memory_order_release);
  slot.length.store(region.length, std::memory_order_release);
  slot.shift.store(region.shift, std::memory_order_release);
  slot.owner.store(region.owner, std::memory_order_release);
  // The key goes last: until then Translate() finds the slot closed.
  slot.key.store(key, std::memory_order_release);
}

void MemoryTable::Close(uint32_t key) {
  const base::MutexLock lock(mutex_);
  Slot& slot = slots_[PlaceOf(key)];
  CHECK_EQ(slot.key.load(std::memory_order_relaxed), key)
      << "a region was removed twice";
  // A copy that begins after SoftDevice::WaitForDataPath() finds it closed.
  slot.key.store(0, std::memory_order_seq_cst);
}

// With the mutex, without which nothing is written, so that all fields are
// those of one region.
std::optional<MemoryTable::Region> MemoryTable::Find(uint32_t key) {
  const base::MutexLock lock(mutex_);
  const Slot& slot = slots_[PlaceOf(key)];
  if (key == 0 || slot.key != key) return std::nullopt;
  return Region{slot.owner, slot.address, slot.length, slot.access, slot.shift};
}

}  // namespace verbena::soft
