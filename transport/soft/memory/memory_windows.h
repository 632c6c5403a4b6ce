// Memory windows: keys that open a part of a region, for as long as they are
// bound to it.

#ifndef VERBENA_TRANSPORT_SOFT_MEMORY_MEMORY_WINDOWS_H_
#define VERBENA_TRANSPORT_SOFT_MEMORY_MEMORY_WINDOWS_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/soft/memory/memory_table.h"

namespace verbena::soft {

// The windows of the device, which have their keys from `memory`, and the
// regions that they keep from being removed.
//
// A bound window of type 1 opens its part of the region for every queue pair of
// the protection domain; one of type 2 for the queue pair that bound it (type
// 2B of the specification). In the table of regions it has an owner with which
// no local key is looked up, so a window is for peers only.
//
// Thread-safe. Its lock is taken after any queue pair's. For a moment after a
// window was invalidated its memory may still be copied from, or to. The table
// outlives it.
class MemoryWindows {
 public:
  explicit MemoryWindows(MemoryTable& memory) : memory_(memory) {}

  // The owner, in the table, of the windows of type 1 of a protection domain.
  // It differs from the owner of memory on demand; see OnDemandOwner().
  static const void* Owner(const void* pd) {
    return static_cast<const char*>(pd) + 2;
  }

  // The key of a new window, which opens nothing; 0 when the table is full. Its
  // low eight bits are zero, and may be any wherever it is named below.
  uint32_t Allocate(const void* pd, ibv_mw_type type);
  // Frees a window, which may be bound.
  void Free(uint32_t window);

  struct Binding {
    uint32_t window;
    uint32_t key;     // Its low eight bits are the window's from now on.
    uint32_t region;  // The key of the region; 0 for none.
    uint32_t access;  // IBV_ACCESS_REMOTE_*, and IBV_ACCESS_ZERO_BASED.
    uint64_t address;
    uint64_t length;
  };
  // Binds a window by the request of `qp`, whose protection domain is `pd`. A
  // window of type 1 that is bound already is bound anew, or to nothing when
  // the length is zero. False when the binding is not allowed; then nothing has
  // changed.
  bool Bind(const Binding& binding, const void* pd, const void* qp);

  // Unbinds the window of type 2 that is open to `qp` under this very key;
  // false when there is none.
  bool Invalidate(uint32_t key, const void* qp);

  // `qp` is about to be destroyed: unbinds the windows that are bound for it.
  void ForgetQueuePair(const void* qp);

  // Removes a region from the table, or closes its slot there; false when a
  // window is bound to it.
  bool RemoveRegion(uint32_t region);
  bool CloseRegion(uint32_t region);

 private:
  struct Window {
    ibv_mw_type type;
    const void* pd;
    uint32_t key;
    uint32_t region;    // The key of the region; 0 when it is not bound.
    const void* owner;  // Its owner in the table, while it is bound.
  };
  // Returns the bits that all keys of one window have in common.
  static uint32_t PlaceOf(uint32_t key) { return key >> 8; }

  bool Allows(const Window& window, const Binding& binding,
              const MemoryTable::Region& region) const;
  void Unbind(Window& window);
  bool IsBound(uint32_t region) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  MemoryTable& memory_;

  base::Mutex mutex_;
  // All windows, by PlaceOf() of their keys.
  std::unordered_map<uint32_t, Window> windows_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_MEMORY_MEMORY_WINDOWS_H_
