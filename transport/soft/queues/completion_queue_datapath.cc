#include <cerrno>

#include "absl/base/optimization.h"
#include "transport/soft/queues/completion_queue.h"
#include "transport/soft/queues/queue_pair.h"

namespace verbena::soft {
namespace {

// A caller who always finds completions still runs the protocol this often.
constexpr uint32_t kBacklogPollsMax = 16;

// Fills the fields that only the completion of a datagram has.
void FillDatagramFields(const Completion& from, ibv_wc& to) {
  to.src_qp = from.sender & 0xffffff;
  to.sl = static_cast<uint8_t>(from.sender >> 24);
  to.pkey_index = 0;
  to.slid = 0;
  to.dlid_path_bits = 0;
}

// Gives the user one completion. That of a send frees the requests it covers,
// here and no sooner, so that their slots count until the user has polled it.
inline void Hand(const Completion& from, ibv_wc& to) {
  to.wr_id = from.wr_id;
  to.status = static_cast<ibv_wc_status>(from.status);
  to.opcode = static_cast<ibv_wc_opcode>(from.opcode);
  to.vendor_err = 0;
  to.byte_len = from.byte_len;
  to.imm_data = from.immediate;
  to.qp_num = from.qp->qp_num;
  to.wc_flags = from.flags;
  if ((from.opcode & IBV_WC_RECV) == 0) {
    from.qp->OnSendPolled(from.sent_up_to);
  } else if ((from.flags & IBV_WC_GRH) != 0) {
    FillDatagramFields(from, to);
  }
}

}  // namespace

// Completions that wait are taken before more are looked for, unless they are
// fewer than the user asks for.
int CompletionQueue::Poll(int count, ibv_wc* completions) {
  if (count <= 0) {
    queue_pairs_.Run();
    return 0;
  }
  if (waiting() < static_cast<uint32_t>(count) || LongBacklog()) {
    queue_pairs_.Run();
  }
  // An empty queue is seen without its lock.
  if (waiting() == 0) return failed() ? -EIO : 0;
  BiasedLock::Guard lock(queue_lock_);
  return PopLocked(count, completions);
}

// Polls that run at the same time may count as one, which only puts the next
// pass off. So the count needs no locked instruction.
bool CompletionQueue::LongBacklog() {
  const uint32_t polls = backlog_polls_.load(std::memory_order_relaxed);
  backlog_polls_.store(polls + 1, std::memory_order_relaxed);
  return polls % kBacklogPollsMax == 0;
}

// The time is read before the completion is taken, because only the oldest
// one's can be read.
int CompletionQueue::PollOne(ibv_wc& completion, CompletionTime& time) {
  if (waiting() == 0 || LongBacklog()) queue_pairs_.Run();
  if (waiting() == 0) return failed() ? -EIO : 0;
  BiasedLock::Guard lock(queue_lock_);
  if (notes_times_) time = ring_.oldest_time();
  return PopLocked(1, &completion);
}

inline int CompletionQueue::PopLocked(int count, ibv_wc* completions) {
  return static_cast<int>(
      ring_.Pop(static_cast<uint32_t>(count),
                [completions](uint32_t i, const Completion& completion) {
                  Hand(completion, completions[i]);
                }));
}

void CompletionQueue::Push(const Completion& completion) {
  bool raise = false;
  {
    BiasedLock::Guard lock(queue_lock_);
    if (ABSL_PREDICT_FALSE(ring_.full() || failed())) {
      // A completion that comes to a queue that has failed is lost as well.
      if (!MakeRoom()) return Fail();
    }
    const uint32_t index = ring_.Push(completion);
    if (ABSL_PREDICT_FALSE(armed_.load(std::memory_order_relaxed) !=
                           Armed::kNo)) {
      raise = NoteArrival(index, completion);
    }
  }
  if (raise) RaiseEvent();
}

}  // namespace verbena::soft
