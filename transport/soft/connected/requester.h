// The sending half of a queue pair: its send queue, and what the peer has said
// about it.

#ifndef VERBENA_TRANSPORT_SOFT_CONNECTED_REQUESTER_H_
#define VERBENA_TRANSPORT_SOFT_CONNECTED_REQUESTER_H_

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <memory>

#include "transport/soft/base/clock.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/link/link_end.h"
#include "transport/soft/link/packet.h"
#include "transport/soft/memory/memory_table.h"
#include "transport/soft/memory/memory_windows.h"
#include "transport/soft/memory/scatter_gather.h"
#include "transport/soft/queues/completion_queue.h"
#include "transport/soft/queues/send_ring.h"

namespace verbena::soft {

// Turns send requests into packets and the peer's answers into completions.
//
// Requests are numbered by a free-running counter, which is also their number
// on the wire. Each passes these marks in order:
//
//   freed <= completed_ <= acknowledged_ <= sending_ <= posted_
//
// The first mark is kept by SendRing: a completion that covers the requests
// before it has been polled. The others are fields below.
//
// The objects that the environment names must outlive the requester. When a
// request ends with an error, the completion says so, and failed() becomes
// true. If a method is given something that a correct peer cannot have said,
// its result tells so.
//
// Not thread-safe: protected by the queue pair's lock, except Free(). Allocates
// only when created.
class Requester {
 public:
  using TimePoint = Clock::TimePoint;

  struct Environment {
    QueuePair* qp;
    CompletionQueue* cq;
    const MemoryTable* memory;
    MemoryWindows* windows;
    const ProtectionDomain* pd;
    const Clock* clock;
  };

  Requester(const Environment& environment,
            const ibv_qp_init_attr& init_attributes);

  // How modify_qp configures it.
  void SetReadsMax(uint8_t reads_max) { reads_max_ = reads_max; }
  void SetRnrRetry(uint8_t rnr_retry) {
    rnr_retry_ = rnr_retries_left_ = rnr_retry;
  }

  // Copies the chain into the send queue. Returns 0, or ENOMEM (full) or EINVAL
  // with `*bad_wr` at the first request that was refused. Small SENDs that
  // nothing holds up are sent at once by `link`, unless that is null.
  int Post(ibv_send_wr* wr, ibv_send_wr** bad_wr, LinkEnd* link);
  // 0 when Post() would take the whole chain; else the error that it would
  // return.
  int CheckAll(const ibv_send_wr* chain) const;

  // Sends the next packet; false when there is none to send, or no room, or it
  // is not yet time.
  bool TransmitOne(LinkEnd& link);

  // Each of these three takes note of one thing that the peer has said. They
  // return false when a correct peer cannot have said it.

  // The peer has executed all requests before `count`.
  bool OnExecuted(uint32_t count) {
    return count == acknowledged_ || OnNewExecuted(count);
  }
  bool OnReadResponse(const Packet& packet);
  // The peer has not executed a request, and says why.
  bool OnNak(const Packet& packet);

  // Draining: from now on no request begins to be sent, but those that have
  // begun are finished. Release() ends it.
  void Hold();
  void Release();
  // Whether everything that had begun has ended.
  bool drained() const { return completed_ == hold_at_; }

  // An unreliable connection expects no answer. CompleteSent() ends the
  // requests that have been sent; DropUnsent(), for a peer that is gone, ends
  // all of them as if they had been.
  bool unreliable() const { return unreliable_; }
  void CompleteSent();
  void DropUnsent();

  // Whether the peer has acknowledged nothing that was sent. Then all of it may
  // be sent again by another link.
  bool unheard() const { return unreliable_ || acknowledged_ == 0; }
  void SendAllAgain() { GoBackTo(acknowledged_); }

  // Ends the oldest unfinished request, if any, with `status`.
  void FailOldest(ibv_wc_status status);
  // Ends all unfinished requests with IBV_WC_WR_FLUSH_ERR.
  void Flush();
  // Forgets everything, without completions.
  void Reset();

  // A completion that covers the requests before `count` has been polled. From
  // any thread.
  void Free(uint32_t count) { ring_.Free(count); }

  // Whether a request has ended with an error: the queue pair must enter ERR.
  bool failed() const { return failed_; }
  uint32_t ended() const { return completed_; }
  bool has_unfinished() const { return completed_ != posted_; }
  bool reads_under_way() const { return reads_under_way_ != 0; }
  bool has_unsent() const { return sending_ != posted_; }
  // Whether the request that is sent next, or in part, is a WRITE. REQUIRES:
  // has_unsent().
  bool NextIsWrite() {
    const Slot& next = ring_.slot(sending_);
    return next.is(IBV_WR_RDMA_WRITE) || next.is(IBV_WR_RDMA_WRITE_WITH_IMM);
  }
  // Whether a request has been sent in part.
  bool in_message() const { return started_; }
  // Whether the user waits for an acknowledgement: for that of a signalled
  // request, or for the send queue to be drained.
  bool awaits_acknowledgement() const {
    return signalled_unfinished_ != 0 || (held_ && !drained());
  }
  // Whether an acknowledgement, or room in the ring, is worth a doorbell.
  bool wants_progress() const {
    return awaits_acknowledgement() || sending_ != posted_;
  }
  // When it will send again after the receiver was not ready, or a time that
  // never comes while it is held; max() when it is not waiting.
  TimePoint resume_at() const { return resume_at_; }

 private:
  struct Slot {
    uint64_t wr_id;
    uint64_t remote_address;
    uint32_t rkey;
    uint32_t length;
    uint32_t immediate;
    uint16_t entry_count;
    uint8_t opcode;  // ibv_wr_opcode.
    uint8_t flags;   // ibv_send_flags.
    // A local request (invalidate, bind) that has already executed and waits
    // to be counted as complete.
    bool done;
    // A READ or an atomic whose data has yet to come.
    bool response_due;

    bool is(ibv_wr_opcode what) const { return opcode == what; }
    bool local() const { return is(IBV_WR_LOCAL_INV) || is(IBV_WR_BIND_MW); }
    bool is_inline() const { return (flags & IBV_SEND_INLINE) != 0; }
    bool signalled() const { return (flags & IBV_SEND_SIGNALED) != 0; }
    bool fenced() const { return (flags & IBV_SEND_FENCE) != 0; }
    bool solicited() const { return (flags & IBV_SEND_SOLICITED) != 0; }
  };
  // Details of a request that do not fit its slot: those of an atomic, or of a
  // request that binds a window.
  union Details {
    AtomicOperands operands;
    MemoryWindows::Binding binding;
  };
  static_assert(kGatherEntriesMax <= UINT16_MAX);

  // The memory that request `number` names.
  ScatterGatherList List(uint32_t number);

  bool PostSmall(const ibv_send_wr& wr, LinkEnd& link);
  int Check(const ibv_send_wr& wr, uint64_t& length) const;
  void Store(const ibv_send_wr& wr, uint32_t length);
  void StoreUnusual(const ibv_send_wr& wr);
  void StoreBinding(const ibv_send_wr& wr);
  bool MayGoAtOnce(const Slot& request) const;
  void SendAtOnce(const ibv_send_wr& wr, const Slot& request, LinkEnd& link);
  bool MayStart(const Slot& request);
  bool OnNewExecuted(uint32_t count);
  bool TransmitRead(LinkEnd& link, const Slot& request);
  bool TransmitAtomic(LinkEnd& link, const Slot& request);
  bool TransmitLocal(LinkEnd& link, Slot& request);
  bool CountLocal();
  void NoteRead();
  bool TransmitSegment(LinkEnd& link, const Slot& request);
  void Advance();
  void OnHoldReached();
  void Complete();
  void PushCompletion(uint32_t number, ibv_wc_status status);
  void Fail(uint32_t number, ibv_wc_status status);
  bool OnReceiverNotReady(uint32_t number, uint8_t timer);
  void GoBackTo(uint32_t number);
  void FindNextRead(uint32_t from);

  const Environment environment_;
  const bool unreliable_;
  const uint8_t flags_of_all_;  // Added to each Slot::flags; from sq_sig_all.
  SendRing<Slot> ring_;
  // Details for each slot of ring_.
  const std::unique_ptr<Details[]> details_;

  uint8_t reads_max_ = 0;
  uint8_t rnr_retry_ = 0;  // 7: without end.

  uint32_t completed_ = 0;     // Requests that have ended.
  uint32_t acknowledged_ = 0;  // Requests that the peer has executed.
  uint32_t sending_ = 0;       // The request that is sent next, or in part.
  uint32_t posted_ = 0;        // Requests that were ever posted.

  bool started_ = false;          // A packet of request sending_ has been sent.
  uint32_t offset_ = 0;           // Bytes of request sending_ already sent.
  uint32_t reads_under_way_ = 0;  // READs and atomics that await their data.
  uint32_t reading_ = 0;          // The oldest of them.
  uint32_t read_offset_ = 0;      // Bytes of its data already received.
  uint32_t signalled_unfinished_ = 0;

  uint8_t rnr_retries_left_ = 0;
  TimePoint resume_at_ = TimePoint::max();

  bool held_ = false;
  uint32_t hold_at_ = 0;  // While held: the first request that may not begin.

  bool failing_ = false;  // Request failing_number_ will end with an error.
  bool failed_ = false;   // That request has ended.
  uint32_t failing_number_ = 0;
  ibv_wc_status failing_status_ = IBV_WC_SUCCESS;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CONNECTED_REQUESTER_H_
