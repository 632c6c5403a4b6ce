// A BufferSource for many threads.

#ifndef VERBENA_RPC_INTERNAL_SHARED_BUFFER_SOURCE_H_
#define VERBENA_RPC_INTERNAL_SHARED_BUFFER_SOURCE_H_

#include <atomic>
#include <cstddef>
#include <thread>
#include <utility>

#include "transport/base/buffer.h"
#include "transport/memory/buffer_pool.h"

namespace verbena::internal {

// Where the present connection's memory comes from, for threads that do not
// hold the role. A spinning lock of a few instructions, because a call may
// begin here and calls take no mutex. Thread-safe.
class SharedBufferSource {
 public:
  void Set(transport::BufferSource source) {
    Lock();
    std::swap(source_, source);
    Unlock();
  }

  transport::Buffer Allocate(size_t bytes) const {
    Lock();
    const transport::BufferSource source = source_;
    Unlock();
    return source.Allocate(bytes);
  }

 private:
  void Lock() const {
    while (locked_.exchange(true, std::memory_order_acquire)) {
      std::this_thread::yield();
    }
  }
  void Unlock() const { locked_.store(false, std::memory_order_release); }

  mutable std::atomic<bool> locked_{false};
  transport::BufferSource source_;  // Protected by locked_.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SHARED_BUFFER_SOURCE_H_
