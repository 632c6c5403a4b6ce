#include "transport/device/memory_domain.h"

#include "absl/memory/memory.h"
#include "transport/base/status_macros.h"

namespace verbena::transport {

absl::StatusOr<std::unique_ptr<MemoryDomain>> MemoryDomain::Create(
    const VerbsOps& verbs, ibv_context* context, uint32_t max_receives,
    uint32_t shared_sends, uint32_t reserved_sends,
    const BufferPool::Options& pool) {
  ASSIGN_OR_RETURN(ProtectionDomain pd,
                   ProtectionDomain::Create(verbs, context));
  std::unique_ptr<MemoryDomain> domain =
      absl::WrapUnique(new MemoryDomain(std::move(pd)));
  // Otherwise each queue pair makes its own receives out of receive_slabs_.
  if (max_receives > 0) {
    ASSIGN_OR_RETURN(domain->receives_,
                     ReceiveBuffers::Create(domain->pd_, domain->receive_slabs_,
                                            max_receives));
  }
  ASSIGN_OR_RETURN(
      domain->send_buffers_,
      SendBuffers::Create(domain->pd_, shared_sends, reserved_sends));
  ASSIGN_OR_RETURN(domain->pool_, BufferPool::Create(domain->pd_, pool));
  return domain;
}

}  // namespace verbena::transport
