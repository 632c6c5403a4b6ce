// A protection domain and the memory in it.

#ifndef VERBENA_TRANSPORT_DEVICE_MEMORY_DOMAIN_H_
#define VERBENA_TRANSPORT_DEVICE_MEMORY_DOMAIN_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/device/buffer_slabs.h"
#include "transport/device/receive_buffers.h"
#include "transport/device/send_buffers.h"
#include "transport/memory/buffer_pool.h"
#include "transport/verbs/protection_domain.h"
#include "transport/verbs/verbs_ops.h"

namespace verbena::transport {

// The memory that a queue pair receives into and sends from, and the pool of
// memory for bulk data. All of it is in one protection domain: a peer that is
// given a key reaches no further.
//
// The connections of a server's poller share one for each device, because their
// peers are given no keys. Each connection of a client has its own, with a
// shared receive queue that it shares with nobody: verbs allow a queue pair to
// take receives of another domain, but rdma_rxe does not, and what is sent must
// be of the queue pair's domain on any device.
//
// The context must outlive it; its queue pairs must be gone before it. Confined
// to the poller's thread, but for pool(), which is thread-safe.
class MemoryDomain {
 public:
  // At most `max_receives` may be reserved at once, or, if that is 0, each
  // queue pair gets receives of its own out of receive_slabs(). `shared_sends`
  // and `reserved_sends` are what SendBuffers::Create() takes.
  static absl::StatusOr<std::unique_ptr<MemoryDomain>> Create(
      const VerbsOps& verbs, ibv_context* context, uint32_t max_receives,
      uint32_t shared_sends, uint32_t reserved_sends,
      const BufferPool::Options& pool);
  MemoryDomain(const MemoryDomain&) = delete;
  MemoryDomain& operator=(const MemoryDomain&) = delete;

  const ProtectionDomain& pd() const { return pd_; }
  BufferSlabs& receive_slabs() { return receive_slabs_; }
  ReceiveBuffers& receives() { return receives_; }
  SendBuffers& send_buffers() { return send_buffers_; }
  BufferPool& pool() { return *pool_; }

  // Returns the bytes registered for frames. They grow with the traffic, and
  // with the number of connections.
  size_t frame_bytes() const {
    return receive_slabs_.registered_bytes() + send_buffers_.registered_bytes();
  }

 private:
  explicit MemoryDomain(ProtectionDomain pd)
      : pd_(std::move(pd)), receive_slabs_(pd_) {}

  ProtectionDomain pd_;
  BufferSlabs receive_slabs_;
  ReceiveBuffers receives_;  // After the slabs: its queue points into them.
  SendBuffers send_buffers_;
  std::unique_ptr<BufferPool> pool_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_DEVICE_MEMORY_DOMAIN_H_
