// Which handles of the device's objects users may hold at this moment.

#ifndef VERBENA_TRANSPORT_SOFT_BASE_LIVE_HANDLES_H_
#define VERBENA_TRANSPORT_SOFT_BASE_LIVE_HANDLES_H_

namespace verbena::soft {

namespace internal {

// The type of a handle is told from others by the address of its tag.
template <typename Handle>
inline constexpr char kHandleTag = 0;

void EnterHandle(const void* handle, const void* tag);
void LeaveHandle(const void* handle);
bool IsLive(const void* handle, const void* tag);

}  // namespace internal

// Whether `handle` is that of an object of this process's device: of this very
// type, and not destroyed. The function does not read `*handle`, so `handle`
// may point anywhere. If a destroyed object's memory holds a new object of the
// type now, the handle counts as live.
//
// Thread-safe.
template <typename Handle>
bool IsLive(const Handle* handle) {
  return internal::IsLive(handle, &internal::kHandleTag<Handle>);
}

// A member of an object that users hold as `handle`, which is live as long as
// the object.
template <typename Handle>
class LiveHandle {
 public:
  explicit LiveHandle(const Handle* handle) : handle_(handle) {
    internal::EnterHandle(handle, &internal::kHandleTag<Handle>);
  }
  LiveHandle(const LiveHandle&) = delete;
  LiveHandle& operator=(const LiveHandle&) = delete;
  ~LiveHandle() { internal::LeaveHandle(handle_); }

 private:
  const Handle* const handle_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_BASE_LIVE_HANDLES_H_
