// One end of a raw RC connection: the queues, their memory, and chains of work
// requests for them.

#ifndef VERBENA_TOOLS_RPC_BENCH_VERBS_END_H_
#define VERBENA_TOOLS_RPC_BENCH_VERBS_END_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

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

// What the device and the port that an id is bound to let a connection do.
struct VerbsLimits {
  uint32_t work_requests = 0;  // In one queue.
  uint64_t message_bytes = 0;  // What one work request moves at most.
  uint8_t reads = 0;           // RDMA READs under way, either direction.

  static absl::StatusOr<VerbsLimits> Of(const transport::Provider& provider,
                                        const transport::CmId& id);
};

// Owns the queue pair of `id` and everything it needs. What is queued goes out
// with a flush, one doorbell for all sends and one for all receives. One
// completion queue serves both.
//
// Not thread-safe. The Provider and the id's event channel must outlive it. The
// first error stays in status(), and nothing more is posted after it.
class VerbsEnd {
 public:
  struct Options {
    uint32_t send_depth = 0;
    uint32_t receive_depth = 0;
    size_t memory_bytes = 0;
    bool remote_access = false;  // The peer may read and write all the memory.
    bool events = false;         // Makes Arm() and Wait() possible.
    // The last request of each chain is signalled, so that its end is heard of
    // although nothing follows.
    bool signal_chains = false;
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
  uint32_t inline_bytes() const { return inline_bytes_; }

  // Requests that may still be queued.
  uint32_t send_room() const {
    return options_.send_depth - static_cast<uint32_t>(queued_ - completed_);
  }

  // How many requests were queued so far; the last of them is this number.
  uint64_t queued() const { return queued_; }
  // The last request that is known to be complete, and all before it with it.
  uint64_t completed() const { return completed_; }

  // Queues a request that moves `length` bytes at `offset` of memory(), one in
  // sixteen signalled. The caller adds what else the opcode needs.
  // REQUIRES: send_room() > 0.
  ibv_send_wr& Queue(ibv_wr_opcode opcode, size_t offset, uint32_t length);

  // `tag` comes back as the wr_id of the completion. A `length` of 0 is for
  // messages that are an immediate number and nothing else.
  void QueueReceive(uint64_t tag, size_t offset, uint32_t length);
  uint32_t queued_receives() const { return receives_.count; }

  // Posts what is queued of each kind.
  void FlushSends();
  void FlushReceives();

  // What the device is done with, until the next call; a failed request is in
  // status().
  absl::Span<const ibv_wc> Poll();

  const absl::Status& status() const { return status_; }

  // Makes the next completion wake Wait(). Poll once more in between.
  void Arm();
  // Blocks until there is an event, one of `fds` can be read (-1: there is
  // none), or `until`. Returns whether one of `fds` can.
  bool Wait(std::array<int, 2> fds, absl::Time until);

 private:
  // Work requests that one doorbell posts at most.
  static constexpr size_t kChain = 64;

  // Linked one after another, each with a scatter element of its own.
  template <typename Work>
  struct Chain {
    Chain();
    bool full() const { return count == kChain; }
    Work& Add(uint64_t tag, const ibv_sge& element);
    // Posts all by `verb`; returns the errno of the device.
    template <typename Verb>
    int Post(const Verb& verb, ibv_qp* qp);

    std::array<Work, kChain> works = {};
    std::array<ibv_sge, kChain> elements = {};
    uint32_t count = 0;
  };

  VerbsEnd(const transport::Provider& provider, transport::CmId id,
           const Options& options);
  absl::Status Open();
  void TakeEvent();
  ibv_sge Element(size_t offset, uint32_t length) const {
    return {address() + offset, length, memory_.lkey()};
  }

  const transport::Provider& provider_;
  const Options options_;
  uint32_t inline_bytes_ = 0;
  // In the order of dependence; the id's queue pair goes first.
  transport::ProtectionDomain pd_;
  transport::CompletionChannel channel_;
  transport::CompletionQueue cq_;
  transport::RegisteredMemory memory_;
  transport::CmId id_;

  Chain<ibv_send_wr> sends_;
  Chain<ibv_recv_wr> receives_;
  std::array<ibv_wc, 32> completions_;
  uint64_t queued_ = 0;
  uint64_t completed_ = 0;
  absl::Status status_;
};

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_VERBS_END_H_
