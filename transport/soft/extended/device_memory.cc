#include "transport/soft/extended/device_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "transport/soft/base/limits.h"
#include "transport/soft/device/context.h"
#include "transport/soft/verbs/memory_region.h"
#include "transport/soft/verbs/refuse.h"
#include "transport/soft/verbs/setting_errno.h"

namespace verbena::soft {
namespace {

// The alignment at which copies are fast and atomics never cross a cache line.
constexpr size_t kAlignment = 64;
constexpr uint32_t kLogAlignmentMax = 12;  // A page.

// In this order nothing can wrap.
bool InRange(DeviceMemory& memory, uint64_t offset, size_t length) {
  return offset <= memory.size() && length <= memory.size() - offset;
}

int CopyTo(ibv_dm* dm, uint64_t offset, const void* from, size_t length) {
  DeviceMemory& memory = *DeviceMemory::From(dm);
  if (!InRange(memory, offset, length)) return EFAULT;
  std::memcpy(memory.data() + offset, from, length);
  return 0;
}

int CopyFrom(void* to, ibv_dm* dm, uint64_t offset, size_t length) {
  DeviceMemory& memory = *DeviceMemory::From(dm);
  if (!InRange(memory, offset, length)) return EFAULT;
  std::memcpy(to, memory.data() + offset, length);
  return 0;
}

}  // namespace

std::unique_ptr<DeviceMemory> DeviceMemory::Create(Context& context,
                                                   size_t size,
                                                   size_t alignment) {
  // Counted first, so that two threads do not take the last bytes both.
  if (context.device_memory().fetch_add(size) + size > kDeviceMemoryBytesMax) {
    context.device_memory() -= size;
    return nullptr;
  }
  const size_t bytes = (size + alignment - 1) & ~(alignment - 1);
  auto* const data =
      static_cast<std::byte*>(std::aligned_alloc(alignment, bytes));
  if (data == nullptr) {
    context.device_memory() -= size;
    return nullptr;
  }
  std::memset(data, 0, bytes);
  return std::unique_ptr<DeviceMemory>(new DeviceMemory(context, data, size));
}

DeviceMemory::DeviceMemory(Context& owner, std::byte* data, size_t size)
    : ibv_dm(), context_(owner), data_(data), size_(size) {
  context = owner.handle();
  memcpy_to_dm = SettingErrno<CopyTo>;
  memcpy_from_dm = SettingErrno<CopyFrom>;
  ++owner.children();
}

DeviceMemory::~DeviceMemory() {
  std::free(data_);
  context_.device_memory() -= size_;
  --context_.children();
}

ibv_dm* AllocDm(ibv_context* context, ibv_alloc_dm_attr* attributes) {
  if (attributes->comp_mask != 0 || attributes->length == 0 ||
      attributes->log_align_req > kLogAlignmentMax) {
    return Refuse<ibv_dm>(EINVAL);
  }
  if (attributes->length > kDeviceMemoryBytesMax) {
    return Refuse<ibv_dm>(ENOMEM);
  }
  const size_t alignment =
      std::max(kAlignment, size_t{1} << attributes->log_align_req);
  std::unique_ptr<DeviceMemory> memory = DeviceMemory::Create(
      *Context::From(context), attributes->length, alignment);
  if (memory == nullptr) errno = ENOMEM;
  return memory.release();
}

int FreeDm(ibv_dm* dm) {
  // Peers may still reach it by its regions.
  if (DeviceMemory::From(dm)->regions() != 0) return EBUSY;
  delete DeviceMemory::From(dm);
  return 0;
}

ibv_mr* RegDmMr(ibv_pd* pd, ibv_dm* dm, uint64_t offset, size_t length,
                unsigned int access) {
  if (!IsLive(dm)) return Refuse<ibv_mr>(EINVAL);
  DeviceMemory* const memory = DeviceMemory::From(dm);
  constexpr unsigned int kRights =
      kRegionAccessFlags & ~(IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB);
  if ((access & ~kRights) != 0 || (access & IBV_ACCESS_ZERO_BASED) == 0 ||
      !RightsAreLegal(access) || pd->context != dm->context ||
      offset > memory->size() || length > memory->size() - offset) {
    return Refuse<ibv_mr>(EINVAL);
  }
  return EnterRegion(pd, memory->data() + offset, length, 0, access,
                     &memory->regions());
}

}  // namespace verbena::soft
