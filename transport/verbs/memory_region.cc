#include "transport/verbs/memory_region.h"

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "transport/verbs/error.h"

namespace verbena::transport {

absl::StatusOr<MemoryRegion> MemoryRegion::Create(const ProtectionDomain& pd,
                                                  absl::Span<uint8_t> memory,
                                                  int access) {
  // The length is in the error, because the limit on locked memory is the usual
  // cause: see error.cc.
  ibv_mr* const mr =
      pd.ops().reg_mr(pd.get(), memory.data(), memory.size(), access);
  if (mr == nullptr) {
    return ErrnoStatus("reg_mr", absl::StrCat(memory.size(), " bytes"), errno);
  }
  return MemoryRegion(pd.ops(), mr);
}

}  // namespace verbena::transport
