#include "transport/verbs/memory_window.h"

#include <cerrno>
#include <cstring>

#include "transport/base/check.h"
#include "transport/verbs/error.h"

namespace verbena::transport {
namespace {

// The flag that rdma_rxe sets instead of IBV_WC_WITH_INV. rdma_rxe hands the
// kernel's own flag to user space, where that bit has another name, and no
// meaning on a reliable connection.
constexpr unsigned int kKernelWithInvalidate = IBV_WC_IP_CSUM_OK;

}  // namespace

absl::StatusOr<MemoryWindow> MemoryWindow::Create(const ProtectionDomain& pd) {
  // An inline function of verbs.h, which calls the device through
  // ibv_context::ops. So no table of a Provider has an entry for windows.
  ibv_mw* const window = ibv_alloc_mw(pd.get(), IBV_MW_TYPE_2);
  if (window == nullptr) return ErrnoStatus("alloc_mw", "of type 2", errno);
  return MemoryWindow(window);
}

void MemoryWindow::Deallocate::operator()(ibv_mw* window) const {
  const int error = ibv_dealloc_mw(window);
  CHECK(error == 0 || IsGone(error)) << "dealloc_mw: " << std::strerror(error);
}

std::optional<uint32_t> InvalidatedKey(const ibv_wc& completion) {
  // A device that follows the verbs sets the first flag, rdma_rxe the second.
  constexpr unsigned int kFlags = IBV_WC_WITH_INV | kKernelWithInvalidate;
  if ((completion.wc_flags & kFlags) == 0) return std::nullopt;
  return completion.invalidated_rkey;
}

}  // namespace verbena::transport
