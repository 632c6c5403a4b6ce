// The bytes that one side of a stream lets the other send.

#ifndef VERBENA_TRANSPORT_STREAMS_RECEIVE_WINDOW_H_
#define VERBENA_TRANSPORT_STREAMS_RECEIVE_WINDOW_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "transport/base/limits.h"

namespace verbena::transport {

// Counts a stream's bytes as running totals. The reader says how many were
// read; the poller's thread grants the peer as many again.
class ReceiveWindow {
 public:
  // Counts bytes that were read. Returns true once the poller should hear of
  // it. Reader only.
  bool Consume(uint64_t bytes) {
    const uint64_t consumed = consumed_.load(std::memory_order_relaxed) + bytes;
    consumed_.store(consumed, std::memory_order_release);
    uint64_t post_at = post_at_.load(std::memory_order_relaxed);
    if (post_at == UINT64_MAX) {
      // The poller was told, and may just now say when it wants to hear again.
      // Both exchange the value, so either this thread sees that, or the poller
      // sees the bytes.
      post_at = post_at_.fetch_add(0, std::memory_order_acq_rel);
    }
    while (consumed >= post_at) {
      // Once: the poller says anew when it wants to hear again. A value that
      // it has just set must not be lost, so it is not overwritten blindly.
      if (post_at_.compare_exchange_weak(post_at, UINT64_MAX,
                                         std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  // --- Poller thread only ---

  // Counts bytes that came. False if the peer may not send so many.
  bool Receive(uint64_t bytes, bool reader_waits) {
    received_ += bytes;
    // The peer has used all that it was granted, and the reader waits for more:
    // the grant came too late.
    if (received_ == granted_ && reader_waits) {
      window_ = std::min(2 * window_, kMaxStreamWindowBytes);
    }
    return received_ <= granted_;
  }
  uint64_t received() const { return received_; }
  uint64_t granted() const { return granted_; }

  // Whether the peer should hear that it may send more: at least up to
  // `awaited`, the end of a message that the reader waits for, or 0.
  bool GrantDue(uint64_t awaited) const {
    return NextLimit(awaited) >= granted_ + window_ / 2 || awaited > granted_;
  }
  // Returns the limit for the peer, which counts as told.
  uint64_t Grant(uint64_t awaited) {
    granted_ = NextLimit(awaited);
    // An exchange, before the next look at the bytes that were read: see
    // Consume().
    post_at_.exchange(granted_ - window_ / 2, std::memory_order_acq_rel);
    return granted_;
  }

 private:
  uint64_t NextLimit(uint64_t awaited) const {
    return std::max(consumed_.load(std::memory_order_acquire) + window_,
                    awaited);
  }

  std::atomic<uint64_t> consumed_{0};  // Written by the reader.
  // The poller should hear when so many bytes were read. UINT64_MAX: it was
  // told, and has not looked yet.
  std::atomic<uint64_t> post_at_{kStreamWindowBytes / 2};

  // The poller's.
  uint64_t received_ = 0;
  uint64_t granted_ = kStreamWindowBytes;
  uint64_t window_ = kStreamWindowBytes;  // Granted beyond what was read.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_STREAMS_RECEIVE_WINDOW_H_
