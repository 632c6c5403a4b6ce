#include <algorithm>

#include "absl/base/optimization.h"
#include "transport/soft/base/copy_bytes.h"
#include "transport/soft/connected/responder.h"
#include "transport/soft/memory/on_demand_memory.h"
#include "transport/soft/queues/queue_pair.h"

namespace verbena::soft {

bool Responder::OnPacket(const Packet& packet) {
  return OnWholeSend(packet) || OnAnyPacket(packet);
}

// Takes the usual message, a SEND of one packet that goes into the one entry of
// the next receive: does all that OnAnyPacket() would do for it. Returns false
// for any other packet, and when the receive does not suit: the receive stays
// taken then, and OnAnyPacket() goes on with it.
inline bool Responder::OnWholeSend(const Packet& packet) {
  constexpr uint8_t kWhole = kPacketFirst | kPacketLast;
  if (packet.kind != PacketKind::kSend ||
      (packet.flags & ~(kPacketSolicited | kPacketUnhurried)) != kWhole ||
      packet.number != executed_ || dropping_ || in_message_) {
    return false;
  }
  if (ABSL_PREDICT_FALSE(!TakeReceive())) {
    Drop(packet, NakReason::kReceiverNotReady, std::nullopt);
    return true;
  }
  if (receive_.entry_count != 1 || packet.payload_bytes > receive_capacity_ ||
      !ReceiveList().Scatter(0, packet.payload_bytes, packet.payload)) {
    return false;
  }
  receive_taken_ = false;
  Completion completion = {};
  completion.wr_id = receive_.wr_id;
  completion.qp = environment_.qp;
  completion.byte_len = packet.payload_bytes;
  completion.status = IBV_WC_SUCCESS;
  completion.opcode = IBV_WC_RECV;
  completion.solicited = (packet.flags & kPacketSolicited) != 0;
  environment_.cq->Push(completion);
  ++executed_;
  return true;
}

// Finds out whether packets are being dropped, then whether this one is the
// next, and then executes it by its kind.
bool Responder::OnAnyPacket(const Packet& packet) {
  if (dropping_) {
    if (!met_) {
      Meet();
    } else if (environment_.unreliable) {
      if (!FollowsLoss(packet)) return SkipRest(packet);
    } else if (!Resumes(packet)) {
      return true;
    }
  }
  if (!Expects(packet) && !FollowsLoss(packet)) return false;
  switch (packet.kind) {
    case PacketKind::kSend:
      return OnSend(packet);
    case PacketKind::kWrite:
      return OnWrite(packet);
    case PacketKind::kRead:
      return OnRead(packet);
    case PacketKind::kCompareSwap:
    case PacketKind::kFetchAdd:
      return OnAtomic(packet);
    case PacketKind::kCount:
      if (!packet.last() || packet.payload_bytes != 0) return false;
      ++executed_;
      return true;
    default:
      return false;
  }
}

// Whether `packet` is the next of the request under way, or the first of the
// next one. The link keeps order, so anything else is wrong.
bool Responder::Expects(const Packet& packet) {
  return packet.number == executed_ && packet.first() == !in_message_ &&
         (packet.first() || packet.kind == message_kind_);
}

// Whether `packet` is the first of a later request, and if so, goes on with
// that. The link keeps order, but while its path was down an unreliable peer
// has counted requests as sent that never went into the link.
bool Responder::FollowsLoss(const Packet& packet) {
  if (!environment_.unreliable || failed_ || !packet.first() ||
      packet.number == executed_) {
    return false;
  }
  executed_ = packet.number;
  in_message_ = dropping_ = false;
  return true;
}

// After a NAK everything is dropped until the refused request comes again.
// While the NAK is still due, the peer cannot be repeating anything.
bool Responder::Resumes(const Packet& packet) {
  if (failed_ || nak_due_ || packet.number != executed_ || !packet.first()) {
    return false;
  }
  dropping_ = false;
  in_message_ = false;
  return true;
}

// Drops `packet` of request executed_, which nobody will repeat.
void Responder::Skip(const Packet& packet) {
  dropping_ = !packet.last();
  if (dropping_) return;
  in_message_ = false;
  ++executed_;
}

bool Responder::SkipRest(const Packet& packet) {
  if (failed_) return true;
  if (packet.number != executed_ || packet.first()) return false;
  Skip(packet);
  return true;
}

// Takes a receive with the first packet, places each segment in it, and
// completes it with the last. The receive's length is checked by segment,
// because a SEND does not announce its own.
bool Responder::OnSend(const Packet& packet) {
  if (packet.first()) {
    if (!TakeReceive()) {
      Drop(packet, NakReason::kReceiverNotReady, std::nullopt);
      return true;
    }
    in_message_ = true;
    message_kind_ = PacketKind::kSend;
    message_offset_ = 0;
  }
  // No correct peer sends a longer message, so there is nothing to refuse.
  if (packet.payload_bytes > kMessageBytesMax - message_offset_) return false;
  if (packet.payload_bytes > receive_capacity_ - message_offset_) {
    // On an unreliable connection the receive waits for the next message.
    if (!environment_.unreliable) {
      PushReceive(IBV_WC_LOC_LEN_ERR, IBV_WC_RECV, nullptr);
    }
    Drop(packet, NakReason::kInvalidRequest, std::nullopt);
    return true;
  }
  if (!ReceiveList().Scatter(message_offset_, packet.payload_bytes,
                             packet.payload)) {
    PushReceive(IBV_WC_LOC_PROT_ERR, IBV_WC_RECV, nullptr);
    Drop(packet, NakReason::kRemoteOperation, std::nullopt);
    // On an unreliable connection Drop() only skips the message. But the bad
    // memory of the receive is an error of this side.
    failed_ |= environment_.unreliable;
    return true;
  }
  message_offset_ += packet.payload_bytes;
  if (packet.last()) {
    if ((packet.flags & kPacketInvalidate) != 0 && !OnInvalidate(packet)) {
      return true;
    }
    PushReceive(IBV_WC_SUCCESS, IBV_WC_RECV, &packet);
    in_message_ = false;
    ++executed_;
  }
  return true;
}

// Checks rights and the whole range with the first packet, and places each
// segment. If nobody has said how long the whole is, the first packet is only
// checked for its own range; Place() looks at each anyhow. The last packet
// takes a receive if it has immediate data.
bool Responder::OnWrite(const Packet& packet) {
  if (packet.first()) {
    in_message_ = true;
    message_kind_ = PacketKind::kWrite;
    message_offset_ = 0;
    write_address_ = packet.address;
    write_rkey_ = packet.rkey;
    write_length_ = packet.value;
    if ((access_ & IBV_ACCESS_REMOTE_WRITE) == 0) {
      FailReceiveOfWrite(packet);
      Drop(packet, NakReason::kInvalidRequest, IBV_EVENT_QP_REQ_ERR);
      return true;
    }
    // The whole range is checked before the first byte is written. A WRITE of
    // nothing needs no valid key, as on hardware.
    const uint32_t range =
        write_length_ == kUnknownLength ? packet.payload_bytes : write_length_;
    if (range != 0 &&
        !Allows(write_rkey_, write_address_, range, IBV_ACCESS_REMOTE_WRITE)) {
      FailReceiveOfWrite(packet);
      Drop(packet, NakReason::kRemoteAccess, IBV_EVENT_QP_ACCESS_ERR);
      return true;
    }
  }
  const uint32_t most = std::min(write_length_, kMessageBytesMax);
  if (packet.payload_bytes > most - message_offset_) return false;
  if (packet.payload_bytes > 0 && !Place(packet)) {
    Drop(packet, NakReason::kRemoteAccess, IBV_EVENT_QP_ACCESS_ERR);
    return true;
  }
  message_offset_ += packet.payload_bytes;
  if (!packet.last()) return true;
  if (message_offset_ != write_length_ && write_length_ != kUnknownLength) {
    return false;
  }
  if ((packet.flags & kPacketImmediate) != 0) {
    // The data has been placed already. If there is no receive for the
    // immediate data, the peer repeats the whole request, and it is placed once
    // more.
    if (!TakeReceive()) {
      Drop(packet, NakReason::kReceiverNotReady, std::nullopt);
      return true;
    }
    PushReceive(IBV_WC_SUCCESS, IBV_WC_RECV_RDMA_WITH_IMM, &packet);
  }
  in_message_ = false;
  ++executed_;
  return true;
}

// A WRITE is refused, of which `packet` is the first. If it has immediate data,
// the receive that this would have taken tells of it. An unreliable one takes
// none: nobody is told.
void Responder::FailReceiveOfWrite(const Packet& packet) {
  if ((packet.flags & kPacketImmediate) == 0 || environment_.unreliable ||
      !TakeReceive()) {
    return;
  }
  PushReceive(IBV_WC_LOC_ACCESS_ERR, IBV_WC_RECV_RDMA_WITH_IMM, nullptr);
}

// Where the memory that the peer names lies in this process, or null when it
// may not do `access` there. The key is mostly that of a region, so windows
// come last.
std::byte* Responder::Find(uint32_t key, uint64_t address, uint64_t length,
                           unsigned int access) const {
  std::byte* const found = environment_.memory->Translate(
      key, environment_.pd, address, length, access);
  return found != nullptr ? found : FindInWindow(key, address, length, access);
}

// Copies one segment of a WRITE to where it belongs. The region is looked up
// again for each segment, because it may have been deregistered since.
bool Responder::Place(const Packet& packet) {
  std::byte* to = Find(write_rkey_, write_address_ + message_offset_,
                       packet.payload_bytes, IBV_ACCESS_REMOTE_WRITE);
  if (to == nullptr) {
    return WriteOnDemand(*environment_.memory, write_rkey_, environment_.pd,
                         write_address_ + message_offset_, packet.payload_bytes,
                         IBV_ACCESS_REMOTE_WRITE, packet.payload);
  }
  CopyBytes(to, packet.payload, packet.payload_bytes);
  return true;
}

// Whether the peer may do `access` to the range. Pages of memory on demand may
// still turn out to be missing.
bool Responder::Allows(uint32_t rkey, uint64_t address, uint32_t length,
                       unsigned int access) const {
  return Find(rkey, address, length, access) != nullptr ||
         AllowsOnDemand(*environment_.memory, rkey, environment_.pd, address,
                        length, access);
}

// Only checks the READ and notes it. The bytes are copied by
// TransmitReadResponse(), as the ring has room.
bool Responder::OnRead(const Packet& packet) {
  if (!packet.last() || packet.payload_bytes != 0) return false;
  if (reads_count_ >= reads_max_ || packet.value > kMessageBytesMax ||
      (access_ & IBV_ACCESS_REMOTE_READ) == 0) {
    Drop(packet, NakReason::kInvalidRequest, IBV_EVENT_QP_REQ_ERR);
    return true;
  }
  if (packet.value != 0 && !Allows(packet.rkey, packet.address, packet.value,
                                   IBV_ACCESS_REMOTE_READ)) {
    Drop(packet, NakReason::kRemoteAccess, IBV_EVENT_QP_ACCESS_ERR);
    return true;
  }
  Note({packet.number, packet.rkey, packet.address, packet.value, 0, 0});
  return true;
}

// Request executed_ is to be answered, and counts as executed: the answers are
// sent in the order of the requests, whenever the ring has room.
void Responder::Note(const ReadRequest& read) {
  reads_[(reads_head_ + reads_count_) % kReadsMax] = read;
  ++reads_count_;
  ++executed_;
}

// A receive may be there already: OnWholeSend() leaves one that does not suit
// it, and a dropped message of an unreliable connection leaves its own.
bool Responder::TakeReceive() {
  if (receive_taken_) return true;
  receive_taken_ = environment_.receives->Take(receive_);
  if (receive_taken_) receive_capacity_ = ReceiveList().TotalBytes();
  return receive_taken_;
}

ScatterGatherList Responder::ReceiveList() const {
  return ScatterGatherList{environment_.memory, environment_.receives->domain(),
                           receive_.entries.data(), receive_.entry_count};
}

// `last` is the packet that ended the message, null when it did not end well.
void Responder::PushReceive(ibv_wc_status status, ibv_wc_opcode opcode,
                            const Packet* last) {
  receive_taken_ = false;
  Completion completion = {};
  completion.wr_id = receive_.wr_id;
  completion.qp = environment_.qp;
  completion.status = static_cast<uint8_t>(status);
  completion.opcode = static_cast<uint8_t>(opcode);
  if (last != nullptr) {
    completion.byte_len = message_offset_;
    if ((last->flags & kPacketImmediate) != 0) {
      completion.immediate = last->value;
      completion.flags = IBV_WC_WITH_IMM;
    } else if ((last->flags & kPacketInvalidate) != 0) {
      completion.immediate = last->value;
      completion.flags = IBV_WC_WITH_INV;
    }
    completion.solicited = (last->flags & kPacketSolicited) != 0;
  }
  environment_.cq->Push(completion);
}

// Does not execute request executed_, of which `packet` is a part.
void Responder::Drop(const Packet& packet, NakReason reason,
                     std::optional<ibv_event_type> event) {
  if (environment_.unreliable) {
    Skip(packet);
  } else {
    Refuse(executed_, reason, event);
  }
}

void Responder::Refuse(uint32_t number, NakReason reason,
                       std::optional<ibv_event_type> event) {
  dropping_ = true;
  nak_due_ = true;
  nak_reason_ = reason;
  nak_number_ = number;
  event_ = event;
}

bool Responder::TransmitOne(LinkEnd& link) {
  if (reads_count_ != 0) return TransmitReadResponse(link);
  // The NAK follows the responses, which belong to requests before it.
  return nak_due_ && TransmitNak(link);
}

// Sends the next segment of the oldest answer. The memory is looked up for each
// segment, as in Place().
bool Responder::TransmitReadResponse(LinkEnd& link) {
  ReadRequest& read = reads_[reads_head_];
  const uint32_t bytes = SegmentBytes(read.offset, read.length - read.offset);
  std::byte* payload = link.Reserve(bytes);
  if (payload == nullptr) return false;
  if (bytes > 0) {
    const std::byte* from = Find(read.rkey, read.address + read.offset, bytes,
                                 IBV_ACCESS_REMOTE_READ);
    if (from != nullptr) {
      CopyBytes(payload, from, bytes);
    } else if (read.rkey == 0) {
      // The answer to an atomic, kept since that was executed.
      CopyBytes(payload, &read.result, bytes);
    } else if (!ReadOnDemand(*environment_.memory, read.rkey, environment_.pd,
                             read.address + read.offset, bytes,
                             IBV_ACCESS_REMOTE_READ, payload)) {
      return RefuseRead(link, read.number);
    }
  }
  Packet packet;
  packet.kind = PacketKind::kReadResponse;
  // Only the program that sleeps waits for the data of its READ.
  packet.flags = kPacketUnhurried;
  packet.payload_bytes = bytes;
  packet.number = read.number;
  if (read.offset == 0) packet.flags |= kPacketFirst;
  read.offset += bytes;
  if (read.offset == read.length) {
    packet.flags |= kPacketLast;
    reads_head_ = (reads_head_ + 1) % kReadsMax;
    --reads_count_;
  }
  link.Publish(packet);
  return true;
}

// The region of the READ was deregistered after it had been accepted: refuses
// it after all.
bool Responder::RefuseRead(LinkEnd& link, uint32_t number) {
  // READs behind it are not answered, because the NAK takes the requester to
  // ERR, which flushes them.
  reads_count_ = 0;
  Refuse(number, NakReason::kRemoteAccess, IBV_EVENT_QP_ACCESS_ERR);
  return TransmitNak(link);
}

bool Responder::TransmitNak(LinkEnd& link) {
  if (link.Reserve(0) == nullptr) return false;
  Packet packet;
  packet.kind = PacketKind::kNak;
  packet.flags = kPacketFirst | kPacketLast;
  packet.number = nak_number_;
  packet.value = static_cast<uint32_t>(nak_reason_) | uint32_t{rnr_timer_} << 8;
  link.Publish(packet);
  nak_due_ = false;
  // Not before: the queue pair closes the link when it enters ERR, and the peer
  // must learn the reason first.
  if (nak_reason_ != NakReason::kReceiverNotReady) failed_ = true;
  return true;
}

}  // namespace verbena::soft
