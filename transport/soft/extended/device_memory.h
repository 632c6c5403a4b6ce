// Memory of the device (ibv_alloc_dm).

#ifndef VERBENA_TRANSPORT_SOFT_EXTENDED_DEVICE_MEMORY_H_
#define VERBENA_TRANSPORT_SOFT_EXTENDED_DEVICE_MEMORY_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "transport/soft/base/live_handles.h"

namespace verbena::soft {

class Context;

// A piece of device memory: ordinary memory of the process, zero at first, that
// users reach by the two copying functions and by regions. A context has
// kDeviceMemoryBytesMax in all. The context outlives it, and it outlives its
// regions. Thread-safe; if two threads write the same bytes at once, any of
// what they write may stay.
class DeviceMemory final : public ibv_dm {
 public:
  // `alignment` is a power of two. Null when the context, or the process, has
  // not so much left.
  static std::unique_ptr<DeviceMemory> Create(Context& context, size_t size,
                                              size_t alignment);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  static DeviceMemory* From(ibv_dm* dm) {
    return static_cast<DeviceMemory*>(dm);
  }

  std::byte* data() { return data_; }
  size_t size() const { return size_; }
  std::atomic<int>& regions() { return regions_; }

 private:
  DeviceMemory(Context& context, std::byte* data, size_t size);

  Context& context_;
  std::byte* const data_;
  const size_t size_;
  std::atomic<int> regions_{0};
  const LiveHandle<ibv_dm> live_{this};
};

// The verbs of these names.
ibv_dm* AllocDm(ibv_context* context, ibv_alloc_dm_attr* attributes);
int FreeDm(ibv_dm* dm);
// A region of device memory begins at address 0: the right
// IBV_ACCESS_ZERO_BASED is required, as by the kernel.
ibv_mr* RegDmMr(ibv_pd* pd, ibv_dm* dm, uint64_t offset, size_t length,
                unsigned int access);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_EXTENDED_DEVICE_MEMORY_H_
