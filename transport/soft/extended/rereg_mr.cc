#include "transport/soft/extended/rereg_mr.h"

#include <cerrno>
#include <optional>

#include "transport/soft/base/live_handles.h"
#include "transport/soft/device/context.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/memory/memory_table.h"
#include "transport/soft/memory/memory_windows.h"
#include "transport/soft/verbs/memory_region.h"

namespace verbena::soft {
namespace {

// Libibverbs tells what it finds in the arguments itself from what the device
// says. Here the region is as it was after either.
int Fail(ibv_rereg_mr_err_code code, int error) {
  errno = error;
  return code;
}
int RefuseInput() { return Fail(IBV_REREG_MR_ERR_INPUT, EINVAL); }
int RefuseCommand(int error) { return Fail(IBV_REREG_MR_ERR_CMD, error); }

// The errno with which such a region cannot be registered; 0 if it can.
int ErrorOf(ibv_pd* pd, void* addr, size_t length, int access) {
  ibv_mr* const trial = RegMr(pd, addr, length, access);
  if (trial == nullptr) return errno;
  return DeregMr(trial);
}

}  // namespace

// Works out what the region is to be, and finds out by a trial whether it could
// be registered so. Only then closes the key, waits for copies under way, and
// opens the key again.
int ReregMr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, size_t length,
            int access) {
  const auto changes = [flags](int what) { return (flags & what) != 0; };
  if ((flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0 ||
      (changes(IBV_REREG_MR_CHANGE_TRANSLATION) &&
       (addr == nullptr || length == 0)) ||
      (access != 0 && !changes(IBV_REREG_MR_CHANGE_ACCESS))) {
    return RefuseInput();
  }
  SoftDevice& device = SoftDevice::Get();
  std::optional<MemoryTable::Region> region = device.memory().Find(mr->rkey);
  if (!region.has_value() || flags == 0 ||
      (changes(IBV_REREG_MR_CHANGE_PD) &&
       (!IsLive(pd) || pd->context != mr->context))) {
    return RefuseCommand(EINVAL);
  }
  if (static_cast<MemoryRegion*>(mr)->user != nullptr ||
      (region->access & IBV_ACCESS_ON_DEMAND) != 0 ||
      (changes(IBV_REREG_MR_CHANGE_ACCESS) &&
       (access & IBV_ACCESS_ON_DEMAND) != 0)) {
    return RefuseCommand(EOPNOTSUPP);
  }
  const bool was_zero_based = (region->access & IBV_ACCESS_ZERO_BASED) != 0;
  const bool translation = changes(IBV_REREG_MR_CHANGE_TRANSLATION);
  if (changes(IBV_REREG_MR_CHANGE_ACCESS)) {
    region->access = static_cast<unsigned int>(access);
  }
  // Where the memory lies, and the address by which users name it.
  uint64_t start = region->address + region->shift;
  if (translation) {
    start = reinterpret_cast<uintptr_t>(addr);
    region->address = start;
    region->length = length;
  }
  if ((region->access & IBV_ACCESS_ZERO_BASED) != 0) {
    region->address = 0;
  } else if (was_zero_based) {
    region->address = start;
  }
  region->shift = start - region->address;
  const int error = ErrorOf(mr->pd, translation ? addr : mr->addr,
                            translation ? length : mr->length,
                            static_cast<int>(region->access));
  if (error != 0) return RefuseCommand(error);
  if (changes(IBV_REREG_MR_CHANGE_PD)) {
    region->owner = &ProtectionDomain::From(pd)->original();
  }
  if (!device.windows().CloseRegion(mr->rkey)) return RefuseCommand(EBUSY);
  // A thread that translates the key meanwhile could take some fields of the
  // old region and some of the new one, since the key is the same.
  device.WaitForDataPath();
  device.memory().Open(mr->rkey, *region);
  if (changes(IBV_REREG_MR_CHANGE_PD)) {
    --ProtectionDomain::From(mr->pd)->children();
    ++ProtectionDomain::From(pd)->children();
    mr->pd = pd;
  }
  if (translation) {
    mr->addr = addr;
    mr->length = length;
  }
  return 0;
}

}  // namespace verbena::soft
