// An end of a raw RC connection: its queues, their memory, and chains of work
// requests for them.

#ifndef VERBENA_TOOLS_RPC_BENCH_VERBS_END_H_
#define VERBENA_TOOLS_RPC_BENCH_VERBS_END_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tools/rpc_bench/verbs_hello.h"
#include "transport/memory/registered_memory.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/completion_channel.h"
#include "transport/verbs/completion_queue.h"
#include "transport/verbs/protection_domain.h"
#include "transport/verbs/provider.h"

namespace verbena::bench {

// Owns the queue pair of an id and everything that one side of a case needs.
// What is queued goes out with a flush, one doorbell for all sends and one for
// all receives. One completion queue serves both.
//
// Not thread-safe. The Provider and the id's event channel must outlive it. The
// first error stays in status(), and nothing more is posted after it.
class VerbsEnd {
 public:
  // `id` is bound to a device. There is neither memory nor a queue pair if
  // status() is an error after this.
  VerbsEnd(const transport::Provider& provider, transport::CmId id,
           const VerbsHello& hello, VerbsSide side);
  VerbsEnd(const VerbsEnd&) = delete;
  VerbsEnd& operator=(const VerbsEnd&) = delete;
  ~VerbsEnd();  // Disconnects.

  transport::CmId& id() { return id_; }
  // The case, and where this end's memory is.
  const VerbsHello& hello() const { return hello_; }
  // To connect or to accept with. They point to hello().
  transport::ConnectionParameters Parameters() const;

  // Where the slots of the memory begin, and the payload in one.
  size_t Offset(uint64_t slot) const { return stride_ * slot; }
  uint8_t* Memory(uint64_t slot) const { return memory_.data() + Offset(slot); }
  absl::Span<uint8_t> Slot(uint64_t slot) const {
    return {Memory(slot), hello_.size_bytes};
  }
  // The longest request that the device takes. A longer transfer is made by
  // several requests.
  uint64_t request_bytes_max() const { return request_bytes_max_; }
  // Requests of the server for a bulk echo: READs, as many WRITEs, and a SEND.
  uint64_t requests_of_echo() const { return requests_of_echo_; }
  // The longest message that is posted inline. The device may allow less than
  // was asked for.
  uint32_t inline_bytes() const { return inline_bytes_; }

  // Requests that may still be queued.
  uint32_t send_room() const {
    return send_depth_ - static_cast<uint32_t>(queued_ - completed_);
  }

  // Requests queued so far, which is also the number of the last one.
  uint64_t queued() const { return queued_; }
  // The number of the last request that is known to be complete. All requests
  // before it are complete, too.
  uint64_t completed() const { return completed_; }

  // Queues a request that moves `length` bytes at `offset` of the memory, one
  // in sixteen signalled. The caller adds what else the opcode needs. REQUIRES:
  // send_room() > 0.
  ibv_send_wr& Queue(ibv_wr_opcode opcode, size_t offset, uint32_t length);

  // `tag` comes back as the wr_id of the completion.
  void QueueReceive(uint64_t tag, uint64_t slot);
  uint32_t queued_receives() const { return receives_.count; }

  // Posts what is queued of each kind.
  void FlushSends();
  void FlushReceives();

  // Returns completions, which stay valid until the next Poll(). The error of a
  // failed request is in status().
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
    Chain() {
      for (size_t i = 0; i < kChain; ++i) {
        works[i].sg_list = &elements[i];
        works[i].next = &works[(i + 1) % kChain];
      }
    }

    bool full() const { return count == kChain; }

    Work& Add(uint64_t tag, const ibv_sge& element) {
      elements[count] = element;
      Work& work = works[count++];
      work.wr_id = tag;
      work.num_sge = element.length > 0 ? 1 : 0;
      return work;
    }

    // Posts all by `verb`; returns the errno of the device.
    template <typename Verb>
    int Post(const Verb& verb, ibv_qp* qp) {
      Work& last = works[count - 1];
      Work* const next = std::exchange(last.next, nullptr);
      Work* bad = nullptr;
      const int error = verb(qp, works.data(), &bad);
      last.next = next;
      count = 0;
      return error;
    }

    std::array<Work, kChain> works = {};
    std::array<ibv_sge, kChain> elements = {};
    uint32_t count = 0;
  };

  // Asks the device what it allows, and sizes everything.
  absl::Status Plan();
  absl::Status Open();
  ibv_sge Element(size_t offset, uint32_t length) const {
    return {hello_.address + offset, length, memory_.lkey()};
  }

  const transport::Provider& provider_;
  VerbsHello hello_;
  const VerbsSide side_;
  const uint64_t stride_;
  uint64_t request_bytes_max_ = 0;
  uint64_t requests_of_echo_ = 0;
  uint8_t reads_max_ = 0;  // RDMA READs under way, either direction.
  uint32_t send_depth_ = 0;
  // Messages that are an immediate number and nothing else need none.
  uint32_t receive_bytes_ = 0;
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
