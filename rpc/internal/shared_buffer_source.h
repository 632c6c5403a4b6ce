// A BufferSource for many threads.

#ifndef VERBENA_RPC_INTERNAL_SHARED_BUFFER_SOURCE_H_
#define VERBENA_RPC_INTERNAL_SHARED_BUFFER_SOURCE_H_

#include <cstddef>
#include <mutex>
#include <utility>

#include "transport/base/buffer.h"
#include "transport/base/spin_lock.h"
#include "transport/memory/buffer_pool.h"

namespace verbena::internal {

// Where the present connection's memory comes from, for threads that do not
// hold the role. A spinning lock of a few instructions, because a call may
// begin here and calls take no mutex. Thread-safe.
class SharedBufferSource {
 public:
  void Set(transport::BufferSource source) {
    const std::lock_guard<base::SpinLock> lock(lock_);
    std::swap(source_, source);
  }

  transport::Buffer Allocate(size_t bytes) const {
    return Source().Allocate(bytes);
  }

 private:
  transport::BufferSource Source() const {
    const std::lock_guard<base::SpinLock> lock(lock_);
    return source_;
  }

  mutable base::SpinLock lock_;
  transport::BufferSource source_;  // Protected by lock_.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SHARED_BUFFER_SOURCE_H_
