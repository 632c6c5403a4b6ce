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
#include "transport/soft/verbs/device_memory.h"
#include "transport/soft/verbs/refuse.h"

namespace verbena::soft {
namespace {

// The flags of IBV_ACCESS_OPTIONAL_RANGE are wishes, which are not refused.
constexpr unsigned int kAccessFlags =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND |
    IBV_ACCESS_HUGETLB | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_OPTIONAL_RANGE;

constexpr uint32_t kAdviceFlags = IBV_ADVISE_MR_FLAG_FLUSH;

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

bool RightsAreLegal(unsigned int access) {
  constexpr unsigned int kNeedLocalWrite =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  return (access & kNeedLocalWrite) == 0 ||
         (access & IBV_ACCESS_LOCAL_WRITE) != 0;
}

// Enters a region whose memory begins at `start` and that users address from
// `iova` on.
ibv_mr* Enter(ibv_pd* pd, void* start, size_t length, uint64_t iova,
              unsigned int access, std::atomic<int>* user) {
  ProtectionDomain* const domain = ProtectionDomain::From(pd);
  const void* owner = &domain->original();
  if ((access & IBV_ACCESS_ON_DEMAND) != 0) owner = OnDemandOwner(owner);
  const uint32_t key = SoftDevice::Get().memory().Add(
      owner, iova, length, access, reinterpret_cast<uintptr_t>(start) - iova);
  if (key == 0) return Refuse<ibv_mr>(ENOMEM);
  ++domain->children();
  if (user != nullptr) ++*user;
  return new MemoryRegion({pd->context, pd, start, length, 0, key, key}, user);
}

// Brings the pages of a range in; false when some cannot be.
bool Populate(uint64_t address, size_t length, bool for_writing) {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t start = address & ~(page - 1);
  return madvise(reinterpret_cast<void*>(start), address + length - start,
                 for_writing ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0;
}

}  // namespace

ibv_mr* RegMr(ibv_pd* pd, void* addr, size_t length, int access) {
  return RegMrAt(pd, addr, length, reinterpret_cast<uintptr_t>(addr), access);
}

ibv_mr* RegMrAt(ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                int access) {
  const auto rights = static_cast<unsigned int>(access);
  const auto start = reinterpret_cast<uintptr_t>(addr);
  if ((rights & IBV_ACCESS_ZERO_BASED) != 0) iova = 0;
  // A region of nothing is legal, at no address even, and opens nothing.
  if ((rights & ~kAccessFlags) != 0 || Wraps(start, length) ||
      Wraps(iova, length) || !RightsAreLegal(rights)) {
    return Refuse<ibv_mr>(EINVAL);
  }
  if ((rights & IBV_ACCESS_ON_DEMAND) != 0) {
    if (!CanAccessOnDemand()) return Refuse<ibv_mr>(EOPNOTSUPP);
  } else if (!IsMapped(start, length)) {
    return Refuse<ibv_mr>(EFAULT);
  }
  return Enter(pd, addr, length, iova, rights, nullptr);
}

int DeregMr(ibv_mr* mr) {
  if (!SoftDevice::Get().windows().RemoveRegion(mr->rkey)) return EBUSY;
  SoftDevice::Get().WaitForDataPath();
  --ProtectionDomain::From(mr->pd)->children();
  auto* const region = static_cast<MemoryRegion*>(mr);
  if (region->user != nullptr) --*region->user;
  delete region;
  return 0;
}

int AdviseMr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags,
             ibv_sge* entries, uint32_t count) {
  if ((flags & ~kAdviceFlags) != 0) return EINVAL;
  if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH &&
      advice != IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
      advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) {
    return ENOTSUP;
  }
  const bool for_writing = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  const MemoryTable& memory = SoftDevice::Get().memory();
  const void* const owner = &ProtectionDomain::From(pd)->original();
  for (uint32_t i = 0; i < count; ++i) {
    const ibv_sge& entry = entries[i];
    if (entry.length == 0) continue;
    const auto allows = [&](unsigned int access) {
      return AllowsOnDemand(memory, entry.lkey, owner, entry.addr, entry.length,
                            access);
    };
    if (!allows(0)) return EFAULT;
    if (for_writing && !allows(IBV_ACCESS_LOCAL_WRITE)) return EPERM;
  }
  if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return 0;
  bool complete = true;
  for (uint32_t i = 0; i < count; ++i) {
    std::byte* const start =
        memory.Translate(entries[i].lkey, OnDemandOwner(owner), entries[i].addr,
                         entries[i].length, 0);
    complete &= entries[i].length == 0 ||
                (start != nullptr && Populate(reinterpret_cast<uint64_t>(start),
                                              entries[i].length, for_writing));
  }
  return complete || (flags & IBV_ADVISE_MR_FLAG_FLUSH) == 0 ? 0 : EFAULT;
}

ibv_mr* RegDmMr(ibv_pd* pd, ibv_dm* dm, uint64_t offset, size_t length,
                unsigned int access) {
  if (!IsLive(dm)) return Refuse<ibv_mr>(EINVAL);
  DeviceMemory* const memory = DeviceMemory::From(dm);
  constexpr unsigned int kRights =
      kAccessFlags & ~(IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB);
  if ((access & ~kRights) != 0 || (access & IBV_ACCESS_ZERO_BASED) == 0 ||
      !RightsAreLegal(access) || pd->context != dm->context ||
      offset > memory->size() || length > memory->size() - offset) {
    return Refuse<ibv_mr>(EINVAL);
  }
  return Enter(pd, memory->data() + offset, length, 0, access,
               &memory->regions());
}

}  // namespace verbena::soft
