#include "transport/soft/memory_table.h"

#include <cstdlib>
#include <type_traits>

#include "transport/base/check.h"

namespace verbena::soft {

MemoryTable::MemoryTable()
    : slots_(static_cast<Slot*>(std::calloc(kSlots, sizeof(Slot))), std::free) {
  static_assert(std::is_trivially_destructible_v<Slot>);
  CHECK(slots_ != nullptr) << "out of memory for the table of regions";
}

uint32_t MemoryTable::Add(const ProtectionDomain* pd, uint64_t address,
                          uint64_t length, unsigned int access) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (regions_ == kRegionsMax) return 0;
  for (;;) {
    const uint32_t key = random_();
    Slot& slot = slots_[key % kSlots];
    if (key == 0 || slot.key.load(std::memory_order_relaxed) != 0) continue;
    slot.access.store(access, std::memory_order_release);
    slot.address.store(address, std::memory_order_release);
    slot.length.store(length, std::memory_order_release);
    slot.pd.store(pd, std::memory_order_release);
    slot.key.store(key, std::memory_order_release);
    ++regions_;
    return key;
  }
}

void MemoryTable::Remove(uint32_t key) {
  std::lock_guard<std::mutex> lock(mutex_);
  Slot& slot = slots_[key % kSlots];
  CHECK_EQ(slot.key.load(std::memory_order_relaxed), key)
      << "a region was removed twice";
  slot.key.store(0, std::memory_order_seq_cst);
  --regions_;
}

}  // namespace verbena::soft
