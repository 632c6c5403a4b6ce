#include "transport/soft/memory_region_verbs.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>

#include "transport/soft/context.h"
#include "transport/soft/memory_table.h"
#include "transport/soft/memory_windows.h"
#include "transport/soft/soft_device.h"

namespace verbena::soft {
namespace {

constexpr int kAccessFlags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                             IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                             IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
                             IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE;
constexpr int kNeedLocalWrite =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

uint64_t AsNumber(const void* address) {
  return reinterpret_cast<uintptr_t>(address);
}

bool IsLegal(int access) {
  return (access & ~kAccessFlags) == 0 &&
         ((access & kNeedLocalWrite) == 0 ||
          (access & IBV_ACCESS_LOCAL_WRITE) != 0);
}

// Whether the range is not empty and does not wrap.
bool IsRange(uint64_t start, uint64_t length) {
  return length != 0 && start + length - 1 >= start;
}

// Whether every page of the range is mapped: what a NIC finds out by pinning
// it.
bool IsMapped(uintptr_t start, size_t length) {
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

// What is wrong with registering this; 0 if nothing.
int ErrorOf(const void* addr, size_t length, uint64_t iova, int access) {
  if (!IsLegal(access) || !IsRange(AsNumber(addr), length) ||
      !IsRange(iova, length)) {
    return EINVAL;
  }
  return IsMapped(AsNumber(addr), length) ? 0 : EFAULT;
}

uint64_t FirstAddress(const void* addr, int access) {
  return (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : AsNumber(addr);
}

int RefuseChange(int error) {
  errno = error;
  return IBV_REREG_MR_ERR_INPUT;
}

}  // namespace

ibv_mr* RegMr(ibv_pd* pd, void* addr, size_t length, int access) {
  return RegMrIova(pd, addr, length, FirstAddress(addr, access), access);
}

ibv_mr* RegMrIova(ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                  int access) {
  if (const int error = ErrorOf(addr, length, iova, access); error != 0) {
    errno = error;
    return nullptr;
  }
  const uint32_t key = SoftDevice::Get().memory().Add(
      ProtectionDomain::From(pd), iova, length, access, AsNumber(addr) - iova);
  if (key == 0) {
    errno = ENOMEM;
    return nullptr;
  }
  ++ProtectionDomain::From(pd)->children();
  return new ibv_mr{pd->context, pd, addr, length, 0, key, key};
}

int ReregMr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, size_t length,
            int access) {
  const auto changes = [flags](int what) { return (flags & what) != 0; };
  SoftDevice& device = SoftDevice::Get();
  std::optional<MemoryTable::Region> region = device.memory().Find(mr->rkey);
  if (!region.has_value() || flags == 0 ||
      (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0 ||
      (changes(IBV_REREG_MR_CHANGE_PD) &&
       (pd == nullptr || pd->context != mr->context))) {
    return RefuseChange(EINVAL);
  }
  if (changes(IBV_REREG_MR_CHANGE_ACCESS)) {
    if (!IsLegal(access)) return RefuseChange(EINVAL);
    region->access = access;
  }
  if (changes(IBV_REREG_MR_CHANGE_TRANSLATION)) {
    const int rights = static_cast<int>(region->access);
    region->address = FirstAddress(addr, rights);
    region->length = length;
    region->shift = AsNumber(addr) - region->address;
    const int error = ErrorOf(addr, length, region->address, rights);
    if (error != 0) return RefuseChange(error);
  }
  if (changes(IBV_REREG_MR_CHANGE_PD)) {
    region->owner = ProtectionDomain::From(pd);
  }
  if (!device.windows().CloseRegion(mr->rkey)) return RefuseChange(EBUSY);
  device.WaitForDataPath();
  device.memory().Open(mr->rkey, *region);
  if (changes(IBV_REREG_MR_CHANGE_PD)) {
    --ProtectionDomain::From(mr->pd)->children();
    ++ProtectionDomain::From(pd)->children();
    mr->pd = pd;
  }
  if (changes(IBV_REREG_MR_CHANGE_TRANSLATION)) {
    mr->addr = addr;
    mr->length = length;
  }
  return 0;
}

int DeregMr(ibv_mr* mr) {
  if (!SoftDevice::Get().windows().RemoveRegion(mr->rkey)) return EBUSY;
  SoftDevice::Get().WaitForDataPath();
  --ProtectionDomain::From(mr->pd)->children();
  delete mr;
  return 0;
}

}  // namespace verbena::soft
