// The memory behind a shared receive queue.

#ifndef VERBENA_TRANSPORT_CONNECTION_RECEIVE_SLOTS_H_
#define VERBENA_TRANSPORT_CONNECTION_RECEIVE_SLOTS_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/base/limits.h"
#include "transport/memory/registered_memory.h"
#include "transport/verbs/protection_domain.h"
#include "transport/verbs/shared_receive_queue.h"

namespace verbena::transport {

// Keeps a shared receive queue filled. Each connection reserves as many
// receives as it may have messages under way towards us, so the queue never
// runs dry; a few more stay posted so that a slot may be announced as free
// while it is still being read.
//
// Memory grows with the largest number of connections there were. Not
// thread-safe: confined to the poller's role. The protection domain must
// outlive it.
class ReceiveSlots {
 public:
  // Set in the wr_id of every receive, beside the index of its slot. Senders
  // count their work requests and never come that far.
  static constexpr uint64_t kReceiveTag = uint64_t{1} << 63;

  // Holds nothing; for assignment.
  ReceiveSlots() = default;

  // Slots that are posted again with one doorbell.
  static constexpr uint32_t kBatch = 16;
  // Completions that may be polled before any of their slots is given back.
  static constexpr uint32_t kPollBatch = 32;
  // Slots beyond those that connections reserve: so many may be read, or have
  // been read and wait for their doorbell, while they count as posted.
  static constexpr uint32_t kExtra = kPollBatch + kBatch;

  // For at most `max_connections` at once.
  static absl::StatusOr<ReceiveSlots> Create(const ProtectionDomain& pd,
                                             uint32_t max_connections);

  // Receives a shared receive queue for so many connections holds.
  static constexpr uint32_t QueueDepth(uint32_t max_connections) {
    return max_connections * kReceivesPerConnection + kExtra;
  }

  // Posts the receives of one more connection, unless a closed one left some.
  // RESOURCE_EXHAUSTED beyond max_connections; the error of the registration.
  absl::Status Reserve();
  void Unreserve() { --reserved_; }

  // The memory of slot `index`, which a completion named.
  const uint8_t* Slot(uint32_t index) const {
    return slabs_[index / kReceivesPerConnection].data() +
           size_t{index % kReceivesPerConnection} * kSlotBytes;
  }

  // The slot has been read. It is posted again at once or with those that
  // follow it; see kExtra.
  absl::Status Repost(uint32_t index);

  ibv_srq* srq() const { return queue_.get(); }

 private:
  ReceiveSlots(const ProtectionDomain& pd, SharedReceiveQueue queue,
               uint32_t max_connections);
  absl::Status AddSlab();
  absl::Status Flush();

  const ProtectionDomain* pd_ = nullptr;
  uint32_t max_connections_ = 0;
  // Slabs of kReceivesPerConnection slots, in the order of their indices. The
  // first serves for the kExtra ones. Before the queue, whose receives
  // point into them.
  std::vector<RegisteredMemory> slabs_;
  SharedReceiveQueue queue_;
  uint32_t reserved_ = 0;  // Connections.

  std::array<uint32_t, kBatch> pending_;  // Slots to post again.
  uint32_t pending_count_ = 0;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_RECEIVE_SLOTS_H_
