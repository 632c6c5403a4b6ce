#include "transport/soft/verbs/memory_region.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "transport/soft/base/live_handles.h"
#include "transport/soft/device/context.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/memory/memory_table.h"
#include "transport/soft/memory/memory_windows.h"
#include "transport/soft/memory/on_demand_memory.h"
#include "transport/soft/verbs/refuse.h"

namespace verbena::soft {
namespace {

// Whether every page of the range is mapped, which a NIC finds out by pinning
// it.
bool IsMapped(uintptr_t start, size_t length) {
  if (length == 0) return true;
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  constexpr size_t kPagesAtOnce = 4096;
  auto resident = std::make_unique<unsigned char[]>(kPagesAtOnce);
  const uintptr_t end = start + length;
  for (uintptr_t at = start & ~(page - 1); at < end;) {
    const size_t bytes = std::min<size_t>(end - at, kPagesAtOnce * page);
    // Fails if a page of the range is not mapped.
    if (mincore(reinterpret_cast<void*>(at), bytes, resident.get()) != 0) {
      return false;
    }
    at += bytes;
  }
  return true;
}

bool Wraps(uint64_t start, uint64_t length) {
  return length > 0 && start + length - 1 < start;
}

}  // namespace

// Memory that peers may change must have the right of local writing, as
// ibv_reg_mr demands.
bool RightsAreLegal(unsigned int access) {
  constexpr unsigned int kNeedLocalWrite =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  return (access & kNeedLocalWrite) == 0 ||
         (access & IBV_ACCESS_LOCAL_WRITE) != 0;
}

ibv_mr* EnterRegion(ibv_pd* pd, void* start, size_t length, uint64_t iova,
                    unsigned int access, std::atomic<int>* user) {
  ProtectionDomain* const domain = ProtectionDomain::From(pd);
  // A region belongs to the protection domain, even if it was registered by a
  // parent domain.
  const void* owner = &domain->original();
  if ((access & IBV_ACCESS_ON_DEMAND) != 0) owner = OnDemandOwner(owner);
  const uint32_t key = SoftDevice::Get().memory().Add(
      owner, iova, length, access, reinterpret_cast<uintptr_t>(start) - iova);
  if (key == 0) return Refuse<ibv_mr>(ENOMEM);
  ++domain->children();
  if (user != nullptr) ++*user;
  return new MemoryRegion({pd->context, pd, start, length, 0, key, key}, user);
}

ibv_mr* RegMr(ibv_pd* pd, void* addr, size_t length, int access) {
  return RegMrAt(pd, addr, length, reinterpret_cast<uintptr_t>(addr), access);
}

// Checks the rights and both ranges, then whether the memory is there. Pages of
// memory on demand may come later.
ibv_mr* RegMrAt(ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                int access) {
  const auto rights = static_cast<unsigned int>(access);
  const auto start = reinterpret_cast<uintptr_t>(addr);
  if ((rights & IBV_ACCESS_ZERO_BASED) != 0) iova = 0;
  // A region of nothing is legal, at no address even, and opens nothing.
  if ((rights & ~kRegionAccessFlags) != 0 || Wraps(start, length) ||
      Wraps(iova, length) || !RightsAreLegal(rights)) {
    return Refuse<ibv_mr>(EINVAL);
  }
  if ((rights & IBV_ACCESS_ON_DEMAND) != 0) {
    if (!CanAccessOnDemand()) return Refuse<ibv_mr>(EOPNOTSUPP);
  } else if (!IsMapped(start, length)) {
    return Refuse<ibv_mr>(EFAULT);
  }
  return EnterRegion(pd, addr, length, iova, rights, nullptr);
}

// Closes the key first, and then waits for copies under way: when it returns,
// the user may free the memory.
int DeregMr(ibv_mr* mr) {
  // A window is still bound to the region.
  if (!SoftDevice::Get().windows().RemoveRegion(mr->rkey)) return EBUSY;
  SoftDevice::Get().WaitForDataPath();
  --ProtectionDomain::From(mr->pd)->children();
  auto* const region = static_cast<MemoryRegion*>(mr);
  if (region->user != nullptr) --*region->user;
  delete region;
  return 0;
}

}  // namespace verbena::soft
