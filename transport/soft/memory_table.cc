#include "transport/soft/memory_table.h"

#include <sys/mman.h>

#include <type_traits>

#include "transport/base/check.h"

namespace verbena::soft {

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
  std::lock_guard<std::mutex> lock(mutex_);
  if (regions_ == kRegionsMax) return 0;
  for (;;) {
    const uint32_t key = random_();
    Slot& slot = slots_[PlaceOf(key)];
    if (key == 0 || slot.key.load(std::memory_order_relaxed) != 0) continue;
    slot.access.store(access, std::memory_order_release);
    slot.address.store(address, std::memory_order_release);
    slot.length.store(length, std::memory_order_release);
    slot.shift.store(shift, std::memory_order_release);
    slot.owner.store(owner, std::memory_order_release);
    slot.key.store(key, std::memory_order_release);
    ++regions_;
    return key;
  }
}

void MemoryTable::Remove(uint32_t key) {
  std::lock_guard<std::mutex> lock(mutex_);
  Slot& slot = slots_[PlaceOf(key)];
  CHECK_EQ(slot.key.load(std::memory_order_relaxed), key)
      << "a region was removed twice";
  slot.key.store(0, std::memory_order_seq_cst);
  --regions_;
}

}  // namespace verbena::soft
