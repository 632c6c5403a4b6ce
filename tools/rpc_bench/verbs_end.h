// One end of a raw RC connection: the queues, their memory, and chains of work
// requests for them.

#ifndef VERBENA_TOOLS_RPC_BENCH_VERBS_END_H_
#define VERBENA_TOOLS_RPC_BENCH_VERBS_END_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/memory/registered_memory.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/completion_channel.h"
#include "transport/verbs/completion_queue.h"
#include "transport/verbs/protection_domain.h"
#include "transport/verbs/provider.h"

namespace verbena::bench {

// A queue of slots that never allocates: first in, first out. Holds at most as
// many as it was made for; not checked.
class SlotQueue {
 public:
  explicit SlotQueue(size_t capacity)
      : slots_(std::bit_ceil(capacity)), mask_(slots_.size() - 1) {}

  bool empty() const { return head_ == tail_; }
  size_t size() const { return tail_ - head_; }

  // REQUIRES: !empty().
  int front() const { return slots_[head_ & mask_]; }

  void Push(int slot) { slots_[tail_++ & mask_] = slot; }

  // REQUIRES: !empty().
  int Pop() { return slots_[head_++ & mask_]; }

 private:
  std::vector<int> slots_;
  const size_t mask_;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
};

// What the device and the port that an id is bound to let a connection do.
struct VerbsLimits {
  uint32_t work_requests = 0;  // In one queue.
  uint64_t message_bytes = 0;  // What one work request moves at most.
  uint8_t reads = 0;           // RDMA READs under way, either direction.

  static absl::StatusOr<VerbsLimits> Of(const transport::Provider& provider,
                                        const transport::CmId& id);
};

// Owns the queue pair of `id` and everything it needs. What is queued goes out
// with Flush(), one doorbell for all sends and one for all receives. One
// completion queue serves both.
//
// Not thread-safe. The Provider and the id's event channel must outlive it. The
// first error stays in status(), and nothing more is posted after it.
class VerbsEnd {
 public:
  struct Options {
    uint32_t send_depth = 0;
    uint32_t receive_depth = 0;
    uint32_t inline_bytes = 0;
    size_t memory_bytes = 0;
    bool remote_access = false;  // The peer may read and write all the memory.
    bool events = false;         // Makes Arm() and Wait() possible.
    // The last request of each chain is signalled, so that its end is heard of
    // although nothing follows.
    bool signal_chains = false;
  };

  // One work request of a send queue.
  struct Request {
    ibv_wr_opcode opcode = IBV_WR_SEND;
    size_t offset = 0;  // In memory().
    uint32_t length = 0;
    uint64_t remote_address = 0;
    uint32_t rkey = 0;
    uint32_t immediate = 0;  // What IBV_WR_SEND_WITH_IMM carries.
    bool signalled = false;  // One in sixteen is anyhow.
  };

  static absl::StatusOr<std::unique_ptr<VerbsEnd>> Create(
      const transport::Provider& provider, transport::CmId id,
      const Options& options);
  VerbsEnd(const VerbsEnd&) = delete;
  VerbsEnd& operator=(const VerbsEnd&) = delete;
  ~VerbsEnd();  // Disconnects.

  transport::CmId& id() { return id_; }
  uint8_t* memory() const { return memory_.data(); }
  uint64_t address() const {
    return reinterpret_cast<uintptr_t>(memory_.data());
  }
  uint32_t rkey() const { return memory_.rkey(); }
  // What is posted inline; the device may take less than was asked for.
  uint32_t inline_bytes() const { return options_.inline_bytes; }

  // Requests that may still be queued.
  uint32_t send_room() const {
    return options_.send_depth - static_cast<uint32_t>(queued_ - completed_);
  }

  // How many requests were queued so far; the last of them is this number.
  uint64_t queued() const { return queued_; }
  // The last request that is known to be complete, and all before it with it.
  uint64_t completed() const { return completed_; }

  // REQUIRES: send_room() > 0.
  void Queue(const Request& request);

  // `tag` comes back as the wr_id of the completion. A `length` of 0 is for
  // messages that are an immediate number and nothing else.
  void QueueReceive(uint64_t tag, size_t offset, uint32_t length);
  uint32_t queued_receives() const { return receives_in_chain_; }

  // Posts what is queued of each kind.
  void FlushSends();
  void FlushReceives();

  // Puts what the device is done with into `completions`; a failed request is
  // in status(). Returns how many came.
  int Poll(absl::Span<ibv_wc> completions);

  const absl::Status& status() const { return status_; }

  // Makes the next completion wake Wait(). Poll once more in between.
  void Arm();
  // Blocks until there is an event, one of `fds` can be read, or `until`.
  // Returns whether one of `fds` can. REQUIRES: at most kWaitFds of them.
  bool Wait(absl::Span<const int> fds, absl::Time until);
  static constexpr size_t kWaitFds = 3;

 private:
  // Work requests that one doorbell posts at most.
  static constexpr size_t kChain = 64;
  // At least one request in this number is signalled.
  static constexpr uint64_t kSignalInterval = 16;

  VerbsEnd(const transport::Provider& provider, transport::CmId id,
           const Options& options);
  absl::Status Open();
  void TakeEvent();

  const transport::Provider& provider_;
  Options options_;
  // In the order of dependence; the id's queue pair goes first.
  transport::ProtectionDomain pd_;
  transport::CompletionChannel channel_;
  transport::CompletionQueue cq_;
  transport::RegisteredMemory memory_;
  transport::CmId id_;

  std::vector<ibv_send_wr> sends_;
  std::vector<ibv_sge> send_elements_;
  size_t sends_in_chain_ = 0;
  std::vector<ibv_recv_wr> receives_;
  std::vector<ibv_sge> receive_elements_;
  size_t receives_in_chain_ = 0;

  uint64_t queued_ = 0;
  uint64_t completed_ = 0;
  absl::Status status_;
};

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_VERBS_END_H_
