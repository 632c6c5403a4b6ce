// The receives of one queue, and their buffers.

#ifndef VERBENA_TRANSPORT_DEVICE_RECEIVE_BUFFERS_H_
#define VERBENA_TRANSPORT_DEVICE_RECEIVE_BUFFERS_H_

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/device/buffer_slabs.h"
#include "transport/verbs/protection_domain.h"
#include "transport/verbs/shared_receive_queue.h"

namespace verbena::transport {

// Keeps a receive queue filled: one that connections share, or a queue pair's
// own. Connections reserve as many receives as they may have messages under way
// towards us, so the queue never runs dry; a few more stay posted so that a
// buffer may be announced as free while it is still being read.
//
// Memory grows, in slabs, with the most that was ever reserved at once, and is
// kept: what one connection leaves serves another. Not thread-safe: confined to
// the poller's thread. The slabs must outlive it.
class ReceiveBuffers {
 public:
  // Set in the wr_id of every receive, beside the index of its buffer. Senders
  // count their work requests and never come that far.
  static constexpr uint64_t kReceiveTag = uint64_t{1} << 63;

  // Buffers that are registered together.
  static constexpr uint32_t kSlabBuffers = BufferSlabs::kSlabBuffers;
  // Buffers that are posted again with one doorbell.
  static constexpr uint32_t kBatch = 16;
  // Completions that may be polled before any of their buffers is given back.
  static constexpr uint32_t kPollBatch = 32;

  // Buffers beyond the reserved ones: so many may be read, or have been read
  // and wait for their doorbell, while they count as posted. Where few are
  // reserved, few can be read, and kLeastBatch wait at least: ringing costs a
  // NIC more than the memory is worth.
  static constexpr uint32_t kLeastBatch = 8;
  static constexpr uint32_t Extra(uint32_t reserved) {
    return std::min(std::max(2 * reserved, reserved + kLeastBatch),
                    kPollBatch + kBatch);
  }

  // Receives that the queue holds when so many are reserved.
  static constexpr uint32_t QueueDepth(uint32_t reserved) {
    return reserved + Extra(reserved);
  }

  // Holds nothing; for assignment.
  ReceiveBuffers() = default;

  // A shared receive queue, for at most `max_reserved` at once.
  static absl::StatusOr<ReceiveBuffers> Create(const ProtectionDomain& pd,
                                               BufferSlabs& slabs,
                                               uint32_t max_reserved);
  // The queue of `qp` alone, which takes no shared ones.
  ReceiveBuffers(BufferSlabs& slabs, ibv_qp* qp, uint32_t max_reserved);
  ReceiveBuffers(ReceiveBuffers&&) = default;
  ReceiveBuffers& operator=(ReceiveBuffers&&) = default;

  // Whether a stopped queue pair has no receive left to complete. Always true
  // for a shared queue.
  bool idle() const { return qp_ == nullptr || posted_ == 0; }

  // Posts nothing more to the queue pair, which is in the error state. Does
  // nothing to a shared queue.
  void Stop();
  // Frees the buffers of a queue pair that was destroyed. Does nothing to a
  // shared queue.
  void Leave();

  // How many more may be reserved.
  uint32_t room() const { return max_reserved_ - reserved_; }
  // Returns how many more buffers Reserve(count) would take.
  uint32_t BuffersFor(uint32_t count) const {
    const uint32_t depth = QueueDepth(reserved_ + count);
    return depth > posted_ ? depth - posted_ : 0;
  }

  // Posts so many more receives, and registers memory for them if there is none
  // left. The error of the registration, or of the device; then nothing is
  // reserved, and if the device takes no receives at all, others have too few:
  // see complete(). REQUIRES: count <= room().
  absl::Status Reserve(uint32_t count);
  // Gives back `count` reserved receives. Buffers that come back are not posted
  // again while more are posted than needed. REQUIRES: count <= reserved().
  absl::Status Unreserve(uint32_t count);

  // Whether as many are posted as are reserved. Not after an error of the
  // device, until as many could be posted again.
  bool complete() const { return posted_ >= wanted_; }

  // Whether a completion can name that buffer.
  bool Has(uint32_t index) const { return slabs_->Has(index); }
  // The memory of buffer `index`, which a completion named. It begins on a
  // multiple of 64. REQUIRES: Has(index).
  const uint8_t* At(uint32_t index) const { return slabs_->At(index); }

  // The buffer has been read. It is posted again at once, or with those that
  // follow it, or kept if there are enough. After an error of the device those
  // that it refused are posted when the next are reserved.
  // Returns whether the device took them.
  bool Repost(uint32_t index) {
    if (ABSL_PREDICT_FALSE(posted_ > wanted_)) {
      Return(index);
      return true;
    }
    pending_[pending_count_++] = index;
    return pending_count_ < batch_ || Flush().ok();
  }

  uint32_t reserved() const { return reserved_; }
  ibv_srq* srq() const { return queue_.get(); }

 private:
  ReceiveBuffers(BufferSlabs& slabs, SharedReceiveQueue queue,
                 uint32_t max_reserved);
  void SetReserved(uint32_t reserved);
  // Posts free buffers until there are as many as are wanted.
  absl::Status Fill();
  absl::Status Flush();
  // Frees a buffer that was posted and will not be posted again.
  void Return(uint32_t index);
  // The device has refused the pending ones from `first` on.
  void TakeBackSlow(ptrdiff_t first);

  uint32_t max_reserved_ = 0;
  BufferSlabs* slabs_ = nullptr;
  SharedReceiveQueue queue_;    // Empty if they are of one queue pair.
  ibv_qp* qp_ = nullptr;        // Null if they are shared.
  std::vector<uint32_t> held_;  // The buffers posted to `qp_`, for Leave().
  bool stopped_ = false;        // Stop() was called.
  uint32_t reserved_ = 0;
  uint32_t wanted_ = 0;  // QueueDepth(reserved_).
  uint32_t posted_ = 0;  // Those included that are being read or pending.
  uint32_t batch_ = 1;   // How many pending ones are posted together.

  std::array<uint32_t, kBatch> pending_ = {};  // Buffers to post again.
  uint32_t pending_count_ = 0;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_DEVICE_RECEIVE_BUFFERS_H_
