#include "transport/soft/connected/requester.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/soft/base/limits.h"
#include "transport/soft/queues/send_chain.h"

namespace verbena::soft {
namespace {

// The times that the 5-bit RNR timer field of a NAK stands for, in units of
// 10 us (InfiniBand specification, table "Encoding for RNR NAK Timer Field").
constexpr uint32_t kRnrTimer[32] = {
    65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
    48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
    2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

constexpr uint8_t kRetryWithoutEnd = 7;

// The value of Requester::resume_at_ that keeps a requester from sending while
// it is held: later than any deadline, but not max(), which means that it is
// not waiting.
constexpr Requester::TimePoint kHeld =
    Requester::TimePoint(Requester::TimePoint::max().time_since_epoch() / 2);

// Whether the request takes a receive request of the peer, and so may find
// none.
bool TakesReceive(uint8_t opcode) {
  return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
         opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

}  // namespace

Requester::Requester(const Environment& environment,
                     const ibv_qp_init_attr& init_attributes)
    : environment_(environment),
      unreliable_(init_attributes.qp_type == IBV_QPT_UC),
      flags_of_all_(init_attributes.sq_sig_all != 0 ? IBV_SEND_SIGNALED : 0),
      ring_(init_attributes),
      details_(std::make_unique_for_overwrite<Details[]>(ring_.slots_count())) {
}

int Requester::CheckAll(const ibv_send_wr* chain) const {
  return CheckChain(chain, ring_.Room(posted_), [this](const ibv_send_wr& wr) {
    uint64_t length = 0;
    return Check(wr, length);
  });
}

// Finds out first whether the NAK can be about a request that was sent, and
// then acts on its reason.
bool Requester::OnNak(const Packet& packet) {
  // The responder of an unreliable connection sends no NAK.
  if (unreliable_) return false;
  const uint32_t sent = sending_ - acknowledged_ + (started_ ? 1 : 0);
  const bool open = packet.number - acknowledged_ < sent;
  // The peer executes in order, so it has executed all requests before one that
  // it refuses. Nothing else may tell of them.
  if (open && !OnExecuted(packet.number)) return false;
  // The oldest READ may be refused even after it was acknowledged: the peer had
  // accepted it, and counted it as executed, but its memory has gone since.
  if (reads_under_way_ != 0 && packet.number == reading_ &&
      (packet.value & 0xff) ==
          static_cast<uint32_t>(NakReason::kRemoteAccess)) {
    Fail(packet.number, IBV_WC_REM_ACCESS_ERR);
    return true;
  }
  // Otherwise it must be about a request that was sent, at least in part, and
  // that was not acknowledged.
  if (!open) return false;
  switch (static_cast<NakReason>(packet.value & 0xff)) {
    case NakReason::kReceiverNotReady:
      return OnReceiverNotReady(packet.number, (packet.value >> 8) & 0x1f);
    case NakReason::kInvalidRequest:
      Fail(packet.number, IBV_WC_REM_INV_REQ_ERR);
      return true;
    case NakReason::kRemoteAccess:
      Fail(packet.number, IBV_WC_REM_ACCESS_ERR);
      return true;
    case NakReason::kRemoteOperation:
      Fail(packet.number, IBV_WC_REM_OP_ERR);
      return true;
  }
  return false;
}

// The RNR NAK protocol of InfiniBand: the request is sent again when the time
// that the responder has named is over, rnr_retry times at most, or without end
// if that is 7.
bool Requester::OnReceiverNotReady(uint32_t number, uint8_t timer) {
  if (!TakesReceive(ring_.slot(number).opcode)) return false;
  if (rnr_retry_ != kRetryWithoutEnd) {
    if (rnr_retries_left_ == 0) {
      Fail(number, IBV_WC_RNR_RETRY_EXC_ERR);
      return true;
    }
    --rnr_retries_left_;
  }
  GoBackTo(number);
  resume_at_ = environment_.clock->Now() +
               std::chrono::microseconds(10) * kRnrTimer[timer];
  return true;
}

// The peer has dropped request `number` and everything after it, which is sent
// again from there. READs and atomics before it were accepted, so their data is
// still to come; those behind it are counted again when they are sent.
void Requester::GoBackTo(uint32_t number) {
  sending_ = number;
  started_ = false;
  offset_ = 0;
  reads_under_way_ = 0;
  for (uint32_t i = completed_; i != sending_; ++i) {
    if (ring_.slot(i).response_due) ++reads_under_way_;
  }
  if (reads_under_way_ == 0) read_offset_ = 0;
}

void Requester::Fail(uint32_t number, ibv_wc_status status) {
  // The oldest error wins: the requests after it are flushed.
  if (failing_ && failing_number_ - completed_ <= number - completed_) return;
  failing_ = true;
  failing_number_ = number;
  failing_status_ = status;
  Complete();
}

// In the state SQD a request that has begun is finished, and no other begins.
// resume_at_ is the gate: nothing is sent before that time. It closes here, or
// in OnHoldReached() when the request that had begun has been sent.
void Requester::Hold() {
  // A request that waits because the receiver was not ready has begun.
  const bool begun = started_ || resume_at_ != TimePoint::max();
  held_ = true;
  hold_at_ = sending_ + (begun ? 1 : 0);
  if (!begun) resume_at_ = kHeld;
}

void Requester::Release() {
  held_ = false;
  if (resume_at_ == kHeld) resume_at_ = TimePoint::max();
}

void Requester::OnHoldReached() {
  if (sending_ == hold_at_) resume_at_ = kHeld;
}

// Nobody will acknowledge it, so what was sent counts as acknowledged.
void Requester::CompleteSent() {
  if (acknowledged_ == sending_) return;
  acknowledged_ = sending_;
  Complete();
}

void Requester::DropUnsent() {
  // A request that fails leads to ERR, where Flush() ends all others.
  if (failing_) return;
  sending_ = posted_;
  started_ = false;
  offset_ = 0;
  CompleteSent();
}

void Requester::FailOldest(ibv_wc_status status) {
  if (has_unfinished() && !failed_) Fail(completed_, status);
}

// Ends all requests in the order of posting. Nothing may be sent afterwards, so
// sending_ and acknowledged_ go to the end as well.
void Requester::Flush() {
  for (; completed_ != posted_; ++completed_) {
    PushCompletion(completed_, IBV_WC_WR_FLUSH_ERR);
  }
  sending_ = acknowledged_ = posted_;
  started_ = held_ = false;
  reads_under_way_ = 0;
  resume_at_ = TimePoint::max();
}

void Requester::Reset() {
  // The queue pair has purged its completions before, so no old one can free
  // slots of the emptied ring.
  ring_.Reset();
  completed_ = acknowledged_ = sending_ = posted_ = 0;
  started_ = held_ = false;
  offset_ = 0;
  reads_under_way_ = 0;
  reading_ = 0;
  read_offset_ = 0;
  signalled_unfinished_ = 0;
  resume_at_ = TimePoint::max();
  failing_ = failed_ = false;
}

}  // namespace verbena::soft
