#include <algorithm>
#include <cerrno>

#include "transport/soft/queues/receive_queue.h"

namespace verbena::soft {
namespace {

// Copies a single entry, the usual case, without a loop or a call: these would
// be most of the cost.
void CopyEntries(const ibv_sge* from, int count, ibv_sge* to) {
  if (count == 1) {
    *to = *from;
  } else {
    std::copy_n(from, count, to);
  }
}

}  // namespace

// Posts the requests one by one, because those before a refused one stay
// posted.
int ReceiveQueue::Post(ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  for (; wr != nullptr; wr = wr->next) {
    const bool full = size() == requests_max_;
    if (full || wr->num_sge < 0 ||
        static_cast<uint32_t>(wr->num_sge) > entries_max_) {
      *bad_wr = wr;
      return full ? ENOMEM : EINVAL;
    }
    const uint32_t index = tail_ & mask_;
    slots_[index] = Slot{wr->wr_id, wr->num_sge};
    CopyEntries(wr->sg_list, wr->num_sge,
                entries_.get() + size_t{index} * entries_max_);
    ++tail_;
  }
  return 0;
}

// Copies the request out, because its slot may be posted to from now on.
bool ReceiveQueue::Take(ReceiveRequest& request) {
  if (size() == 0) return false;
  const uint32_t index = head_ & mask_;
  request.wr_id = slots_[index].wr_id;
  request.entry_count = slots_[index].entry_count;
  CopyEntries(entries_.get() + size_t{index} * entries_max_,
              request.entry_count, request.entries.data());
  ++head_;
  return true;
}

int SharedReceiveQueue::Post(ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  BiasedLock::Guard lock(lock_);
  return queue_.Post(wr, bad_wr);
}

bool SharedReceiveQueue::Take(ReceiveRequest& request) {
  bool limit_reached = false;
  {
    BiasedLock::Guard lock(lock_);
    if (!queue_.Take(request)) return false;
    limit_reached = limit_ != 0 && queue_.size() < limit_;
    if (limit_reached) limit_ = 0;  // A limit raises one event.
  }
  if (limit_reached) RaiseLimitEvent();
  return true;
}

}  // namespace verbena::soft
