// Which sockets of a completion queue's connections to other hosts are ready.

#ifndef VERBENA_TRANSPORT_SOFT_QUEUES_STREAM_WATCH_H_
#define VERBENA_TRANSPORT_SOFT_QUEUES_STREAM_WATCH_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "transport/base/mutex.h"
#include "transport/base/unique_fd.h"

namespace verbena::soft {

class QueuePair;

// An epoll instance, so that one system call finds the ready sockets among
// thousands. A program that waits at a completion channel waits for it too.
//
// Thread-safe. A queue pair is removed before it is destroyed.
class StreamWatch {
 public:
  // The most that one look returns; the next look finds the others.
  static constexpr size_t kReadyMax = 32;
  using Ready = std::array<QueuePair*, kReadyMax>;

  // Returns 0, or the errno with which the kernel refuses.
  int Add(QueuePair* qp, int socket);
  // REQUIRES: Add() has taken the socket, which is still open.
  void Remove(int socket);
  // From now on `socket` is ready for these; Add() begins with input.
  void SetInterest(QueuePair* qp, int socket, bool input, bool output);

  // Fills `ready` with queue pairs whose sockets are ready. Never blocks.
  absl::Span<QueuePair*> Look(Ready& ready) const;

  uint32_t count() const { return count_.load(std::memory_order_relaxed); }
  // Readable while a socket is ready; -1 before the first Add().
  int fd() const { return epoll_fd_.load(std::memory_order_acquire); }

 private:
  int Open() ABSL_LOCKS_EXCLUDED(mutex_);

  base::Mutex mutex_;
  base::UniqueFd owned_ ABSL_GUARDED_BY(mutex_);  // Set once.
  std::atomic<int> epoll_fd_{-1};                 // That of owned_.
  std::atomic<uint32_t> count_{0};
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_QUEUES_STREAM_WATCH_H_
