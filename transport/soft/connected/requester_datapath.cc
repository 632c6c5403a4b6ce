#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/soft/base/copy_bytes.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/base/live_handles.h"
#include "transport/soft/connected/requester.h"
#include "transport/soft/queues/queue_pair.h"
#include "transport/soft/queues/send_chain.h"

namespace verbena::soft {
namespace {

uint8_t CompletionOpcode(uint8_t opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_WC_FETCH_ADD;
    case IBV_WR_LOCAL_INV:
      return IBV_WC_LOCAL_INV;
    case IBV_WR_BIND_MW:
      return IBV_WC_BIND_MW;
    default:
      return IBV_WC_SEND;
  }
}

bool IsWrite(uint8_t opcode) {
  return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

}  // namespace

// Takes the requests one by one, because those before a refused one stay
// posted. A request goes into the ring at once if nothing holds it up;
// TransmitOne() sends the others.
int Requester::Post(ibv_send_wr* wr, ibv_send_wr** bad_wr, LinkEnd* link) {
  for (; wr != nullptr; wr = wr->next) {
    if (link != nullptr && PostSmall(*wr, *link)) continue;
    uint64_t length = 0;
    if (const int error = Check(*wr, length); error != 0) {
      *bad_wr = wr;
      return error;
    }
    Store(*wr, static_cast<uint32_t>(length));
    const Slot& request = ring_.slot(posted_ - 1);
    if (link != nullptr && MayGoAtOnce(request)) {
      SendAtOnce(*wr, request, *link);
    }
  }
  return 0;
}

// Posts and sends the usual small message, a SEND of one piece of inline data
// that nothing holds up: all that Check(), Store() and SendAtOnce() would do
// for it. Returns false, and has done nothing, if it is any other request.
inline bool Requester::PostSmall(const ibv_send_wr& wr, LinkEnd& link) {
  constexpr unsigned int kAsked = IBV_SEND_INLINE | IBV_SEND_FENCE;
  static_assert(kInlineBytesMax <= kFirstSegmentBytes);
  if (wr.opcode != IBV_WR_SEND || wr.num_sge != 1 ||
      (wr.send_flags & kAsked) != IBV_SEND_INLINE || sending_ != posted_ ||
      failing_ || resume_at_ != TimePoint::max()) {
    return false;
  }
  const uint32_t length = wr.sg_list->length;
  if (length > ring_.inline_max() || ring_.Room(posted_) == 0) {
    return false;
  }
  std::byte* const payload = link.Reserve(length);
  if (payload == nullptr) return false;
  Packet packet;
  packet.kind = PacketKind::kSend;
  packet.flags = kPacketFirst | kPacketLast;
  packet.payload_bytes = length;
  packet.number = posted_;
  Slot& request = ring_.slot(posted_);
  request.wr_id = wr.wr_id;
  request.length = length;
  request.entry_count = 1;
  request.opcode = IBV_WR_SEND;
  request.flags = static_cast<uint8_t>(wr.send_flags | flags_of_all_);
  request.response_due = false;
  if (request.solicited()) packet.flags |= kPacketSolicited;
  if (request.signalled()) {
    ++signalled_unfinished_;
  } else {
    packet.flags |= kPacketUnhurried;
  }
  const void* const data = reinterpret_cast<const void*>(wr.sg_list->addr);
  CopyBytes(payload, data, length);
  link.Publish(packet);
  // The peer may have no receive for it: then it is sent again from this copy.
  CopyBytes(ring_.inline_data(posted_), data, length);
  sending_ = ++posted_;
  return true;
}

// Returns the errors that a post itself reports. Keys of memory are looked at
// when bytes are copied, because a bad key is reported by a completion.
int Requester::Check(const ibv_send_wr& wr, uint64_t& length) const {
  if (ring_.Room(posted_) == 0) {
    return ENOMEM;
  }
  if (wr.num_sge < 0 ||
      static_cast<uint32_t>(wr.num_sge) > ring_.entries_max()) {
    return EINVAL;
  }
  for (int i = 0; i < wr.num_sge; ++i) length += wr.sg_list[i].length;
  if (length > kMessageBytesMax) return EINVAL;
  const bool is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
  switch (wr.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return is_inline && length > ring_.inline_max() ? EINVAL : 0;
    case IBV_WR_SEND_WITH_INV:
      return unreliable_ || (is_inline && length > ring_.inline_max()) ? EINVAL
                                                                       : 0;
    // A local request has no data.
    case IBV_WR_LOCAL_INV:
      return wr.num_sge != 0 || is_inline ? EINVAL : 0;
    case IBV_WR_BIND_MW:
      // Which takes a lock, as all that binds: see requester_local.cc.
      return wr.num_sge != 0 || is_inline || !IsLive(wr.bind_mw.mw) ? EINVAL
                                                                    : 0;
    // An unreliable connection has no answers, and an answer is never inline.
    case IBV_WR_RDMA_READ:
      return is_inline || unreliable_ ? EINVAL : 0;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      if (is_inline || unreliable_) return EINVAL;
      // Its entries may have more room than that. With less the answer has
      // none, and it ends with an error.
      length = kAtomicBytes;
      return 0;
    default:
      return EINVAL;
  }
}

// The members of the unions of ibv_send_wr share their places: imm_data is also
// invalidate_rkey, and the address of wr.rdma is also that of wr.atomic.
void Requester::Store(const ibv_send_wr& wr, uint32_t length) {
  Slot& request = ring_.slot(posted_);
  request.wr_id = wr.wr_id;
  request.remote_address = wr.wr.rdma.remote_addr;
  request.rkey = wr.wr.rdma.rkey;
  request.length = length;
  request.immediate = wr.imm_data;
  request.entry_count = static_cast<uint16_t>(wr.num_sge);
  request.opcode = static_cast<uint8_t>(wr.opcode);
  request.flags = static_cast<uint8_t>(wr.send_flags | flags_of_all_);
  request.response_due = false;
  // The opcodes of plain SENDs and of WRITEs come before that of a READ.
  if (wr.opcode >= IBV_WR_RDMA_READ) StoreUnusual(wr);
  if (request.is_inline()) {
    CopyInline(wr, ring_.inline_data(posted_));
  } else if (wr.num_sge == 1) {
    *ring_.entries(posted_) = *wr.sg_list;
  } else {
    std::copy_n(wr.sg_list, wr.num_sge, ring_.entries(posted_));
  }
  if (request.signalled()) ++signalled_unfinished_;
  ++posted_;
}

// Stores what SENDs and WRITEs do not have.
void Requester::StoreUnusual(const ibv_send_wr& wr) {
  Slot& request = ring_.slot(posted_);
  request.done = false;
  switch (wr.opcode) {
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      request.rkey = wr.wr.atomic.rkey;
      details_[ring_.index(posted_)].operands = {wr.wr.atomic.compare_add,
                                                 wr.wr.atomic.swap};
      [[fallthrough]];
    case IBV_WR_RDMA_READ:
      request.response_due = true;
      return;
    case IBV_WR_BIND_MW:
      StoreBinding(wr);
      return;
    default:
      return;
  }
}

// Whether `request`, which was posted last, is a SEND of one packet that
// nothing holds up.
bool Requester::MayGoAtOnce(const Slot& request) const {
  return sending_ + 1 == posted_ && request.length <= kFirstSegmentBytes &&
         (request.is(IBV_WR_SEND) || request.is(IBV_WR_SEND_WITH_IMM)) &&
         !failing_ && resume_at_ == TimePoint::max() &&
         (!request.fenced() || reads_under_way_ == 0);
}

// The short way of the usual case; TransmitOne() does the same, later, for
// whatever could not go at once. Inline data is copied from where the user has
// it: the copy in the send queue has only just been written.
void Requester::SendAtOnce(const ibv_send_wr& wr, const Slot& request,
                           LinkEnd& link) {
  std::byte* const payload = link.Reserve(request.length);
  // The ring has no room: TransmitOne() sends the request later.
  if (payload == nullptr) return;
  if (request.is_inline()) {
    CopyInline(wr, payload);
  } else if (!List(sending_).Gather(0, request.length, payload)) {
    Fail(sending_, IBV_WC_LOC_PROT_ERR);
    return;
  }
  Packet packet;
  packet.kind = PacketKind::kSend;
  packet.flags = kPacketFirst | kPacketLast;
  packet.payload_bytes = request.length;
  packet.number = sending_;
  if (!request.signalled()) packet.flags |= kPacketUnhurried;
  if (request.solicited()) packet.flags |= kPacketSolicited;
  if (request.is(IBV_WR_SEND_WITH_IMM)) {
    packet.flags |= kPacketImmediate;
    packet.value = request.immediate;
  }
  link.Publish(packet);
  ++sending_;
}

ScatterGatherList Requester::List(uint32_t number) {
  return ScatterGatherList{environment_.memory, environment_.pd,
                           ring_.entries(number),
                           ring_.slot(number).entry_count};
}

// Sends one packet of request sending_. The request may have to wait for its
// time or for READs before it; then nothing behind it is sent either, because
// requests go in order.
bool Requester::TransmitOne(LinkEnd& link) {
  if (sending_ == posted_ || failing_) return false;
  if (resume_at_ != TimePoint::max()) {
    if (environment_.clock->Now() < resume_at_) return false;
    resume_at_ = TimePoint::max();
  }
  Slot& request = ring_.slot(sending_);
  if (!started_ && !MayStart(request)) return false;
  if (!request.response_due) {
    return request.local() ? TransmitLocal(link, request)
                           : TransmitSegment(link, request);
  }
  return request.is(IBV_WR_RDMA_READ) ? TransmitRead(link, request)
                                      : TransmitAtomic(link, request);
}

// Whether the first packet of request sending_ may go. False if it has to wait,
// or if a local error ends it before anything is sent. The memory of a request
// of one packet is checked when it is gathered.
bool Requester::MayStart(const Slot& request) {
  const bool is_read = request.response_due;  // A READ or an atomic.
  // With max_rd_atomic of 0 it could never go.
  if (is_read && reads_max_ == 0) {
    Fail(sending_, IBV_WC_LOC_QP_OP_ERR);
    return false;
  }
  if (is_read && reads_under_way_ == reads_max_) return false;
  // IBV_SEND_FENCE: the data of all READs and atomics before it must be there.
  if (request.fenced() && reads_under_way_ != 0) return false;
  // The memory that an answer goes to is looked at when that comes: what the
  // responder finds wrong comes first, and an atomic is done whatever comes.
  if (!is_read && !request.is_inline() && request.length > kFirstSegmentBytes &&
      !List(sending_).Allows(0)) {
    Fail(sending_, IBV_WC_LOC_PROT_ERR);
    return false;
  }
  return true;
}

bool Requester::TransmitRead(LinkEnd& link, const Slot& request) {
  if (link.Reserve(0) == nullptr) return false;
  Packet packet;
  packet.kind = PacketKind::kRead;
  packet.flags = kPacketFirst | kPacketLast;
  packet.number = sending_;
  packet.address = request.remote_address;
  packet.rkey = request.rkey;
  packet.value = request.length;
  link.Publish(packet);
  NoteRead();
  return true;
}

// To the requester an atomic is a READ of eight bytes.
bool Requester::TransmitAtomic(LinkEnd& link, const Slot& request) {
  std::byte* const payload = link.Reserve(sizeof(AtomicOperands));
  if (payload == nullptr) return false;
  std::memcpy(payload, &details_[ring_.index(sending_)].operands,
              sizeof(AtomicOperands));
  Packet packet;
  packet.kind = request.is(IBV_WR_ATOMIC_CMP_AND_SWP) ? PacketKind::kCompareSwap
                                                      : PacketKind::kFetchAdd;
  packet.flags = kPacketFirst | kPacketLast;
  packet.payload_bytes = sizeof(AtomicOperands);
  packet.number = sending_;
  packet.address = request.remote_address;
  packet.rkey = request.rkey;
  link.Publish(packet);
  NoteRead();
  return true;
}

// Request sending_ has been sent and will be answered with data.
void Requester::NoteRead() {
  if (reads_under_way_++ == 0) reading_ = sending_;
  Advance();
}

// Copies the next segment of a SEND or a WRITE into the ring, and then
// publishes its header. Only the first packet of a WRITE has the address, the
// key and the length, which the responder keeps for the others.
bool Requester::TransmitSegment(LinkEnd& link, const Slot& request) {
  const uint32_t left = request.length - offset_;
  const uint32_t bytes = SegmentBytes(offset_, left);
  std::byte* payload = link.Reserve(bytes);
  if (payload == nullptr) return false;
  if (request.is_inline()) {
    std::memcpy(payload, ring_.inline_data(sending_) + offset_, bytes);
  } else if (!List(sending_).Gather(offset_, bytes, payload)) {
    Fail(sending_, IBV_WC_LOC_PROT_ERR);
    return false;
  }
  Packet packet;
  packet.payload_bytes = bytes;
  packet.number = sending_;
  if (!started_) packet.flags |= kPacketFirst;
  bool last = bytes == left;
  bool immediate = request.is(IBV_WR_SEND_WITH_IMM);
  if (IsWrite(request.opcode)) {
    packet.kind = PacketKind::kWrite;
    if (!started_) {
      packet.address = request.remote_address;
      packet.rkey = request.rkey;
      packet.value = request.length;
      if (request.is(IBV_WR_RDMA_WRITE_WITH_IMM)) {
        packet.flags |= kPacketImmediate;  // Announces the immediate data.
      }
    }
    // Immediate data follows in a packet of its own: see PacketHeader.
    if (request.is(IBV_WR_RDMA_WRITE_WITH_IMM)) {
      immediate = last = started_ && left == 0;
    }
  } else {
    packet.kind = PacketKind::kSend;
    // The packets of a long one are hurried, since those that follow may need
    // the room they take.
    if (request.length <= kSegmentBytes && !request.signalled()) {
      packet.flags |= kPacketUnhurried;
    }
  }
  if (last) {
    packet.flags |= kPacketLast;
    if (request.solicited()) packet.flags |= kPacketSolicited;
    if (immediate) {
      packet.flags |= kPacketImmediate;
      packet.value = request.immediate;
    } else if (request.is(IBV_WR_SEND_WITH_INV)) {
      packet.flags |= kPacketInvalidate;
      packet.value = request.immediate;
    }
  }
  link.Publish(packet);
  started_ = true;
  offset_ += bytes;
  if (last) Advance();
  return true;
}

void Requester::Advance() {
  ++sending_;
  started_ = false;
  offset_ = 0;
  if (held_) OnHoldReached();
}

bool Requester::OnNewExecuted(uint32_t count) {
  const int32_t news = static_cast<int32_t>(count - acknowledged_);
  // Packets and the word beside them may overtake each other, so the number may
  // be older than what is known already.
  if (news <= 0) return true;  // So of a local request, counted already.
  if (static_cast<uint32_t>(news) > sending_ - acknowledged_) return false;
  acknowledged_ = count;
  if (acknowledged_ != sending_ && ring_.slot(acknowledged_).local()) {
    CountLocal();
  }
  // The next request begins with all its retries.
  rnr_retries_left_ = rnr_retry_;
  Complete();
  return true;
}

// Takes a segment of the data that the oldest READ or atomic waits for. The
// responder answers in the order of the requests, so any other number is wrong.
bool Requester::OnReadResponse(const Packet& packet) {
  if (reads_under_way_ == 0 || packet.number != reading_) return false;
  Slot& request = ring_.slot(reading_);
  const uint32_t left = request.length - read_offset_;
  // The last packet, and no other, brings the last byte; and only the answer to
  // a READ of nothing is empty.
  if (packet.payload_bytes > left ||
      packet.last() != (packet.payload_bytes == left) ||
      (packet.payload_bytes == 0 && !packet.last())) {
    return false;
  }
  const ScatterGatherList room = List(reading_);
  if (!room.Scatter(read_offset_, packet.payload_bytes, packet.payload)) {
    // Only an atomic can be longer than the room it was given.
    Fail(reading_, room.TotalBytes() < request.length ? IBV_WC_LOC_LEN_ERR
                                                      : IBV_WC_LOC_PROT_ERR);
    return true;
  }
  read_offset_ += packet.payload_bytes;
  if (!packet.last()) return true;
  request.response_due = false;
  read_offset_ = 0;
  if (--reads_under_way_ != 0) FindNextRead(reading_ + 1);
  Complete();
  return true;
}

// REQUIRES: a READ or an atomic at or after `from` is under way.
void Requester::FindNextRead(uint32_t from) {
  while (!ring_.slot(from).response_due) ++from;
  reading_ = from;
}

// Ends, in the order of posting, the requests of which nothing more is to come.
// A request that fails ends only when all before it have ended; it has a
// completion even if it is not signalled.
void Requester::Complete() {
  // Flush() ends the requests behind the one that has failed.
  if (failed_) return;
  const uint32_t end = failing_ ? failing_number_ : acknowledged_;
  for (; completed_ != acknowledged_ && completed_ != end; ++completed_) {
    const Slot& request = ring_.slot(completed_);
    if (request.response_due) return;
    if (request.signalled()) PushCompletion(completed_, IBV_WC_SUCCESS);
  }
  if (!failing_ || completed_ != failing_number_) return;
  failed_ = true;
  PushCompletion(completed_++, failing_status_);
}

// The completion covers all requests up to this one: polling it frees their
// slots, those of unsignalled requests among them.
void Requester::PushCompletion(uint32_t number, ibv_wc_status status) {
  const Slot& request = ring_.slot(number);
  if (request.signalled()) --signalled_unfinished_;
  Completion completion = {};
  completion.wr_id = request.wr_id;
  completion.qp = environment_.qp;
  completion.byte_len = request.length;
  completion.sent_up_to = number + 1;
  completion.status = static_cast<uint8_t>(status);
  completion.opcode = CompletionOpcode(request.opcode);
  environment_.cq->Push(completion);
}

}  // namespace verbena::soft
