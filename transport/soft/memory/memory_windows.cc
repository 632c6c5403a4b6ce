#include "transport/soft/memory/memory_windows.h"

#include <algorithm>
#include <optional>

#include "transport/base/check.h"

namespace verbena::soft {
namespace {

// The bits of a window's key that its user chooses.
constexpr uint32_t kUsersBits = 0xff;

constexpr uint32_t kRights =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
// Other rights that a binding may ask for, because programs pass the rights of
// their regions. They have no effect: a window has no local rights.
constexpr uint32_t kIgnoredRights =
    uint32_t{IBV_ACCESS_LOCAL_WRITE} | uint32_t{IBV_ACCESS_OPTIONAL_RANGE};
constexpr uint32_t kWritingRights =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

}  // namespace

uint32_t MemoryWindows::Allocate(const void* pd, ibv_mw_type type) {
  const base::MutexLock lock(mutex_);
  const uint32_t key = memory_.ReserveForWindow();
  if (key != 0) windows_[PlaceOf(key)] = Window{type, pd, key, 0, nullptr};
  return key;
}

// Closes the place in the table before it is released, so that the next owner
// of the place finds it closed.
void MemoryWindows::Free(uint32_t key) {
  const base::MutexLock lock(mutex_);
  const auto found = windows_.find(PlaceOf(key));
  CHECK(found != windows_.end()) << "a window was freed twice";
  Unbind(found->second);
  memory_.Release(found->second.key);
  windows_.erase(found);
}

// Finds the window and the region, checks the rules, and closes the old binding
// before it opens the new one: a slot of the table has one key at a time.
bool MemoryWindows::Bind(const Binding& binding, const void* pd,
                         const void* qp) {
  const base::MutexLock lock(mutex_);
  const auto found = windows_.find(PlaceOf(binding.window));
  if (found == windows_.end()) return false;
  Window& window = found->second;
  const uint32_t key = (window.key & ~kUsersBits) | (binding.key & kUsersBits);
  // Only queue pairs of its own protection domain may bind a window.
  if (window.pd != pd) return false;
  if (binding.length == 0 && window.type == IBV_MW_TYPE_1) {
    Unbind(window);
    window.key = key;
    return true;
  }
  const std::optional<MemoryTable::Region> region =
      memory_.Find(binding.region);
  // A region on demand has another owner in the table, so no window is bound to
  // it.
  if (!region.has_value() || region->owner != pd ||
      !Allows(window, binding, *region)) {
    return false;
  }
  Unbind(window);
  window.key = key;
  window.region = binding.region;
  window.owner = window.type == IBV_MW_TYPE_1 ? Owner(pd) : qp;
  const bool zero_based = (binding.access & IBV_ACCESS_ZERO_BASED) != 0;
  memory_.Open(key,
               {.owner = window.owner,
                .address = zero_based ? 0 : binding.address,
                .length = binding.length,
                .access = binding.access & kRights,
                .shift = region->shift + (zero_based ? binding.address : 0)});
  return true;
}

// The rules of the specification for "Bind Memory Window": a window of type 1
// has no base at zero, one of type 2 must be unbound before it is bound anew;
// the region must allow windows, and local writing if the window allows to
// write; and the window lies within the region.
bool MemoryWindows::Allows(const Window& window, const Binding& binding,
                           const MemoryTable::Region& region) const {
  const bool zero_based = (binding.access & IBV_ACCESS_ZERO_BASED) != 0;
  const bool bound = window.region != 0;
  if (window.type == IBV_MW_TYPE_1 ? zero_based : bound) return false;
  if (binding.length == 0 || (binding.access & ~(kRights | kIgnoredRights |
                                                 IBV_ACCESS_ZERO_BASED)) != 0) {
    return false;
  }
  if ((region.access & IBV_ACCESS_MW_BIND) == 0 ||
      ((binding.access & kWritingRights) != 0 &&
       (region.access & IBV_ACCESS_LOCAL_WRITE) == 0)) {
    return false;
  }
  return binding.address >= region.address && binding.length <= region.length &&
         binding.address - region.address <= region.length - binding.length;
}

void MemoryWindows::Unbind(Window& window) {
  if (window.region == 0) return;
  memory_.Close(window.key);
  window.region = 0;
  window.owner = nullptr;
}

// Compares the whole key, and not only the window's place: a key that was
// replaced by a later binding is invalid already.
bool MemoryWindows::Invalidate(uint32_t key, const void* qp) {
  const base::MutexLock lock(mutex_);
  const auto found = windows_.find(PlaceOf(key));
  if (found == windows_.end()) return false;
  Window& window = found->second;
  if (window.type != IBV_MW_TYPE_2 || window.region == 0 || window.key != key ||
      window.owner != qp) {
    return false;
  }
  Unbind(window);
  return true;
}

void MemoryWindows::ForgetQueuePair(const void* qp) {
  const base::MutexLock lock(mutex_);
  for (auto& [place, window] : windows_) {
    if (window.owner == qp) Unbind(window);
  }
}

// Looks at all windows: only the verbs that remove or change a region ask.
bool MemoryWindows::IsBound(uint32_t region) const {
  return std::any_of(
      windows_.begin(), windows_.end(),
      [region](const auto& entry) { return entry.second.region == region; });
}

// The mutex is held until the region is closed, so that no window is bound to
// it after the look.
bool MemoryWindows::CloseRegion(uint32_t region) {
  const base::MutexLock lock(mutex_);
  if (IsBound(region)) return false;
  memory_.Close(region);
  return true;
}

bool MemoryWindows::RemoveRegion(uint32_t region) {
  const base::MutexLock lock(mutex_);
  if (IsBound(region)) return false;
  memory_.Remove(region);
  return true;
}

}  // namespace verbena::soft
