#include "transport/soft/extended/advise_mr.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "transport/soft/device/context.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/memory/memory_table.h"
#include "transport/soft/memory/on_demand_memory.h"

namespace verbena::soft {
namespace {

constexpr uint32_t kAdviceFlags = IBV_ADVISE_MR_FLAG_FLUSH;

// Brings the pages of a range in; false when some cannot be.
bool Populate(uint64_t address, size_t length, bool for_writing) {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t start = address & ~(page - 1);
  return madvise(reinterpret_cast<void*>(start), address + length - start,
                 for_writing ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0;
}

}  // namespace

// Checks all entries before it brings in a page of any.
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
  // Only pages that are there already are asked for, and they need nothing.
  if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return 0;
  bool complete = true;
  for (uint32_t i = 0; i < count; ++i) {
    const ibv_sge& entry = entries[i];
    if (entry.length == 0) continue;
    std::byte* const start = memory.Translate(entry.lkey, OnDemandOwner(owner),
                                              entry.addr, entry.length, 0);
    complete &= start != nullptr && Populate(reinterpret_cast<uint64_t>(start),
                                             entry.length, for_writing);
  }
  return complete || (flags & IBV_ADVISE_MR_FLAG_FLUSH) == 0 ? 0 : EFAULT;
}

}  // namespace verbena::soft
