// A BufferSource for many threads.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_SHARED_BUFFER_SOURCE_H_
#define VERBENA_RPC_INTERNAL_CLIENT_SHARED_BUFFER_SOURCE_H_

#include <cstddef>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "transport/base/buffer.h"
#include "transport/base/spin_lock.h"
#include "transport/memory/buffer_pool.h"

namespace verbena::internal {

// The source of the present connection's memory, for threads that do not hold
// the ownership. Uses a spin lock for a few instructions, because calls begin
// here, and calls take no mutex. Thread-safe.
class SharedBufferSource {
 public:
  void Set(transport::BufferSource source) {
    const base::ScopedLock<base::SpinLock> lock(lock_);
    std::swap(source_, source);
  }

  transport::Buffer Allocate(size_t bytes) const {
    return Source().Allocate(bytes);
  }
  transport::Buffer AllocateSpare(size_t bytes) const {
    return Source().AllocateSpare(bytes);
  }

 private:
  transport::BufferSource Source() const {
    const base::ScopedLock<base::SpinLock> lock(lock_);
    return source_;
  }

  mutable base::SpinLock lock_;
  transport::BufferSource source_ ABSL_GUARDED_BY(lock_);
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_SHARED_BUFFER_SOURCE_H_
