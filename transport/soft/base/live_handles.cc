#include "transport/soft/base/live_handles.h"

#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"

namespace verbena::soft::internal {
namespace {

struct Handles {
  base::Mutex mutex;
  // The tag of each live handle.
  std::unordered_map<const void*, const void*> tags ABSL_GUARDED_BY(mutex);
};

// Never destroyed: objects may be as old as the process.
Handles& AllHandles() {
  static auto* const handles = new Handles;
  return *handles;
}

}  // namespace

void EnterHandle(const void* handle, const void* tag) {
  Handles& handles = AllHandles();
  const base::MutexLock lock(handles.mutex);
  handles.tags[handle] = tag;
}

void LeaveHandle(const void* handle) {
  Handles& handles = AllHandles();
  const base::MutexLock lock(handles.mutex);
  handles.tags.erase(handle);
}

bool IsLive(const void* handle, const void* tag) {
  Handles& handles = AllHandles();
  const base::MutexLock lock(handles.mutex);
  const auto found = handles.tags.find(handle);
  return found != handles.tags.end() && found->second == tag;
}

}  // namespace verbena::soft::internal
