// The way from the ring to the socket.

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/soft/base/copy_bytes.h"
#include "transport/soft/iwarp/iwarp_stream.h"

namespace verbena::soft {
namespace {

RdmapOpcode SendOpcode(bool solicited, bool invalidate) {
  if (invalidate) {
    return solicited ? RdmapOpcode::kSendSolicitedInvalidate
                     : RdmapOpcode::kSendInvalidate;
  }
  return solicited ? RdmapOpcode::kSendSolicited : RdmapOpcode::kSend;
}

}  // namespace

// Sends what is left of the last batch, and then the next. A batch that the
// kernel does not take whole is gone on with by the next call.
bool IwarpStream::Send(int socket) {
  if (broken_ || lost_ || !ReadProgress()) return false;
  bool moved = false;
  if (has_unsent()) moved = SendBatch(socket);
  if (!has_unsent() && !lost_) {
    Gather();
    if (broken_) {
      pieces_count_ = pieces_sent_ = 0;
      return moved;
    }
    moved |= SendBatch(socket);
  }
  link_.TellProgress();
  return moved;
}

// Learns how many of the peer's requests the queue pair has executed, and how
// much room it has made.
bool IwarpStream::ReadProgress() {
  uint32_t executed = 0;
  if (!link_.ReadPeerProgress(executed)) {
    Break("the queue pair has consumed packets that it was not sent");
    return false;
  }
  NoteExecuted(executed);
  return true;
}

// Packets and the word beside them may overtake each other.
void IwarpStream::NoteExecuted(uint32_t executed) {
  if (static_cast<int32_t>(executed - executed_) > 0) executed_ = executed;
}

// Makes a batch of the packets in the ring, and of what else is to be said. The
// packets stay in the ring until the kernel has their bytes.
void IwarpStream::Gather() {
  send_used_ = 0;
  pieces_count_ = pieces_sent_ = 0;
  batch_bytes_ = batch_sent_ = 0;
  batch_count_ = batch_consumed_ = 0;
  uint32_t ahead = 0;
  uint32_t payload_bytes = 0;
  bool drained = false;
  while (batch_count_ < kBatchPackets && payload_bytes < kBatchBytes) {
    Packet packet;
    const LinkEnd::Incoming incoming = link_.PeekAt(ahead, packet);
    if (incoming == LinkEnd::Incoming::kNothing) {
      drained = true;
      break;
    }
    if (incoming == LinkEnd::Incoming::kBroken) {
      Break("the queue pair has put nonsense into its ring");
      return;
    }
    NoteExecuted(packet.executed);
    // A plain peer that was told Terminate takes nothing more.
    if (!terminated_) AppendPacket(packet);
    if (broken_) return;
    ahead += PacketUnits(packet.payload_bytes);
    payload_bytes += packet.payload_bytes;
    batch_[batch_count_++] = {batch_bytes_, packet.payload_bytes, out_.number};
  }
  // Messages of the user must not overtake packets that were in the ring
  // before.
  for (; drained && !said_.empty(); said_.Pop()) AppendMessage(said_.front());
  AppendAck();
}

// Acknowledgements go along with other bytes. Alone they go if there are many.
// If the peer's user waits for one, it goes after a while, or at once while our
// user sleeps.
void IwarpStream::AppendAck() {
  if (!terms_.extended) return;
  idle_calls_ = batch_bytes_ == 0 ? idle_calls_ + 1 : 0;
  if (executed_ == executed_told_) return;
  const bool due =
      owes_acknowledgement() && (hurried_ || idle_calls_ >= kAckPatience);
  if (batch_bytes_ == 0 && !due && executed_ - executed_told_ < kAckCount) {
    return;
  }
  AppendMessage({.kind = StreamMessage::Kind::kAck, .words = {executed_, 0}});
  executed_told_ = executed_;
  idle_calls_ = 0;
}

// Gives the kernel what it takes of the batch. If the connection is lost, the
// rest is dropped; it is left to Receive() to find the end, because what the
// peer sent before can still be read.
bool IwarpStream::SendBatch(int socket) {
  const uint32_t consumed_before = batch_consumed_;
  const uint32_t sent_before = batch_sent_;
  while (has_unsent()) {
    msghdr message = {};
    message.msg_iov = pieces_.data() + pieces_sent_;
    message.msg_iovlen = pieces_count_ - pieces_sent_;
    const ssize_t sent =
        ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM) break;
      end_errno_ = errno;
      lost_ = true;
      pieces_count_ = pieces_sent_ = 0;
      return false;
    }
    batch_sent_ += static_cast<uint32_t>(sent);
    auto rest = static_cast<size_t>(sent);
    while (rest != 0 && rest >= pieces_[pieces_sent_].iov_len) {
      rest -= pieces_[pieces_sent_++].iov_len;
    }
    if (!has_unsent()) break;
    iovec& piece = pieces_[pieces_sent_];
    piece.iov_base = static_cast<std::byte*>(piece.iov_base) + rest;
    piece.iov_len -= rest;
    break;  // The kernel has no more room.
  }
  ConsumeSent();
  return batch_consumed_ != consumed_before || batch_sent_ != sent_before;
}

// Makes room in the ring for packets whose bytes the kernel has. To a plain
// peer their requests are executed with that.
void IwarpStream::ConsumeSent() {
  for (; batch_consumed_ != batch_count_; ++batch_consumed_) {
    const BatchPacket& sent = batch_[batch_consumed_];
    if (sent.end > batch_sent_) return;
    link_.Consume({.payload_bytes = sent.payload_bytes});
    if (!terms_.extended) link_.set_executed(sent.counted);
  }
}

// Makes the next `bytes` of the buffer a part of the batch.
void IwarpStream::AppendOwn(size_t bytes) {
  std::byte* const at = send_tail();
  send_used_ += bytes;
  batch_bytes_ += static_cast<uint32_t>(bytes);
  if (pieces_count_ != 0) {
    iovec& last = pieces_[pieces_count_ - 1];
    if (static_cast<std::byte*>(last.iov_base) + last.iov_len == at) {
      last.iov_len += bytes;
      return;
    }
  }
  pieces_[pieces_count_++] = {at, bytes};
}

// Appends an FPDU. A small payload is copied, so that header, payload and CRC
// are one piece; a large one is sent from where it is.
void IwarpStream::Append(const DdpSegment& segment, const std::byte* payload) {
  std::byte* at = send_tail();
  size_t length = EncodeSegment(segment, at);
  const uint32_t bytes = segment.payload_bytes;
  const size_t padding = (0 - (length + bytes)) & 3;
  uint32_t crc = 0;
  if (bytes < kCopyBytes) {
    if (bytes != 0) CopyBytes(at + length, payload, bytes);
    length += bytes;
    std::memset(at + length, 0, padding);
    length += padding;
    if (terms_.crc) crc = MpaCrc(at, length);
  } else {
    if (terms_.crc) crc = MpaCrc(payload, bytes, MpaCrc(at, length));
    AppendOwn(length);
    pieces_[pieces_count_++] = {const_cast<std::byte*>(payload), bytes};
    batch_bytes_ += bytes;
    at = send_tail();
    length = padding;
    std::memset(at, 0, padding);
    if (terms_.crc) crc = MpaCrc(at, padding, crc);
  }
  std::memcpy(at + length, &crc, kCrcBytes);
  AppendOwn(length + kCrcBytes);
}

// Appends a segment of the next message of an untagged queue.
void IwarpStream::AppendUntagged(DdpSegment& segment,
                                 const std::byte* payload) {
  segment.sequence = out_sequence_[segment.queue];
  if (segment.last) ++out_sequence_[segment.queue];
  Append(segment, payload);
}

void IwarpStream::AppendMessage(const StreamMessage& message) {
  std::byte bytes[StreamMessage::kBytesMax];
  StoreBig32(bytes, static_cast<uint32_t>(message.kind));
  StoreBig64(bytes + 4, message.words[0]);
  StoreBig64(bytes + 12, message.words[1]);
  const uint32_t length = message.bytes();
  std::memcpy(bytes + StreamMessage::kHeadBytes, message.cm.data(),
              length - StreamMessage::kHeadBytes);
  DdpSegment segment = {.opcode = RdmapOpcode::kExtended,
                        .last = true,
                        .queue = kExtendedQueue,
                        .payload_bytes = length};
  AppendUntagged(segment, bytes);
}

void IwarpStream::AppendPacket(const Packet& packet) {
  switch (packet.kind) {
    case PacketKind::kSend:
      return AppendSend(packet);
    case PacketKind::kWrite:
      return AppendWrite(packet);
    case PacketKind::kRead:
      return AppendRead(packet);
    case PacketKind::kCompareSwap:
    case PacketKind::kFetchAdd:
      return AppendAtomic(packet);
    case PacketKind::kCount:
      return AppendCount(packet);
    case PacketKind::kReadResponse:
      return AppendAnswer(packet);
    case PacketKind::kNak:
      return AppendNak(packet);
    case PacketKind::kNone:
      break;
  }
  Break("the queue pair has sent a packet of the unknown kind %u",
        static_cast<unsigned>(packet.kind));
}

// Whether the packet, of a request, goes now. One that begins a request which
// is not the next goes behind a kResume: the requester went back after a NAK,
// or an unreliable one has lost packets. An unfinished message is given up.
bool IwarpStream::Goes(const Packet& packet) {
  if (!packet.first()) {
    if (out_.open && packet.kind == out_.kind && packet.number == out_.number) {
      return true;
    }
    Break("the queue pair goes on with a request that it has not begun");
    return false;
  }
  if (out_.open || packet.number != out_.number) {
    if (terms_.extended) {
      AppendMessage(
          {.kind = StreamMessage::Kind::kResume, .words = {packet.number, 0}});
      Forget(reads_, packet.number);
    } else if (out_.open) {
      Break("a message was given up, which a peer of iWARP cannot be told");
      return false;
    }
    if (out_.open && out_.kind == PacketKind::kSend) {
      ++out_sequence_[kSendQueue];
    }
  }
  out_ = {.open = true, .kind = packet.kind, .number = packet.number};
  return true;
}

void IwarpStream::CloseSent() {
  out_.open = false;
  ++out_.number;
}

// Other devices want one opcode for all segments of a message, but only the
// last packet says what it asks for. So a Send of several segments always asks
// for an event: one too many costs its receiver a look. Returns false if the
// message cannot be said.
bool IwarpStream::SettleOpcode(const Packet& packet, DdpSegment& segment) {
  const bool invalidate = (packet.flags & kPacketInvalidate) != 0;
  if (packet.first()) {
    out_.opcode = packet.last() ? segment.opcode : SendOpcode(true, invalidate);
    out_.invalidate = invalidate;
  } else if (invalidate != out_.invalidate) {
    Break("a SEND that invalidates a key, and says so only at its end");
    return false;
  }
  segment.opcode = out_.opcode;
  return true;
}

void IwarpStream::AppendSend(const Packet& packet) {
  if (!Goes(packet)) return;
  const bool immediate =
      packet.last() && (packet.flags & kPacketImmediate) != 0;
  if (immediate && !terms_.extended) {
    Break("a SEND with immediate data, which iWARP does not have");
    return;
  }
  const bool invalidate = (packet.flags & kPacketInvalidate) != 0;
  DdpSegment segment;
  // If there is immediate data, that carries the event.
  segment.opcode = SendOpcode(
      !immediate && (packet.flags & kPacketSolicited) != 0, invalidate);
  if (!terms_.extended && !SettleOpcode(packet, segment)) return;
  segment.last = packet.last();
  segment.immediate_follows = immediate;
  segment.unhurried = terms_.extended && (packet.flags & kPacketUnhurried) != 0;
  if (invalidate) segment.stag = packet.value;
  segment.queue = kSendQueue;
  segment.offset = out_.offset;
  segment.payload_bytes = packet.payload_bytes;
  AppendUntagged(segment, packet.payload);
  out_.offset += packet.payload_bytes;
  if (immediate) AppendImmediate(packet);
  if (packet.last()) CloseSent();
}

// The packet with immediate data comes behind those with the data, of which
// none is marked as the last: the length tells.
void IwarpStream::AppendWrite(const Packet& packet) {
  if (!Goes(packet)) return;
  const bool immediate = (packet.flags & kPacketImmediate) != 0;
  if (packet.first()) {
    out_.rkey = packet.rkey;
    out_.address = packet.address;
    out_.length = packet.value;
    out_.immediate = immediate;
  } else if (packet.last() && immediate) {
    AppendImmediate(packet);
    CloseSent();
    return;
  }
  const DdpSegment segment = {
      .opcode = RdmapOpcode::kWrite,
      .tagged = true,
      .last = out_.immediate ? out_.offset + packet.payload_bytes == out_.length
                             : packet.last(),
      .immediate_follows = terms_.extended && out_.immediate,
      .stag = out_.rkey,
      .offset = out_.address + out_.offset,
      .payload_bytes = packet.payload_bytes};
  Append(segment, packet.payload);
  out_.offset += packet.payload_bytes;
  if (packet.last()) CloseSent();
}

// Immediate data is 32 bits in the order of the network already.
void IwarpStream::AppendImmediate(const Packet& packet) {
  std::byte bytes[kImmediateBytes] = {};
  std::memcpy(bytes, &packet.value, sizeof(packet.value));
  DdpSegment segment = {
      .opcode = (packet.flags & kPacketSolicited) != 0
                    ? RdmapOpcode::kImmediateSolicited
                    : RdmapOpcode::kImmediate,
      .last = true,
      .unhurried = terms_.extended && (packet.flags & kPacketUnhurried) != 0,
      .queue = kSendQueue,
      .payload_bytes = kImmediateBytes};
  AppendUntagged(segment, bytes);
}

void IwarpStream::AppendRead(const Packet& packet) {
  if (!Goes(packet)) return;
  if (reads_.full()) {
    Break("the queue pair asks for more READs at once than there may be");
    return;
  }
  reads_.Push(
      {.number = packet.number, .name = ++sinks_, .length = packet.value});
  std::byte bytes[ReadRequestBody::kBytes];
  ReadRequestBody{.sink_stag = sinks_,
                  .length = packet.value,
                  .source_stag = packet.rkey,
                  .source_offset = packet.address}
      .Encode(bytes);
  DdpSegment segment = {.opcode = RdmapOpcode::kReadRequest,
                        .last = true,
                        .queue = kRequestQueue,
                        .payload_bytes = ReadRequestBody::kBytes};
  AppendUntagged(segment, bytes);
  CloseSent();
}

void IwarpStream::AppendAtomic(const Packet& packet) {
  if (!Goes(packet)) return;
  if (reads_.full() || packet.payload_bytes != sizeof(AtomicOperands)) {
    Break("the queue pair asks for an atomic that there may not be");
    return;
  }
  reads_.Push({.number = packet.number,
               .name = ++sinks_,
               .length = kAtomicBytes,
               .atomic = true});
  AtomicOperands operands;
  std::memcpy(&operands, packet.payload, sizeof(operands));
  AtomicRequestBody body = AtomicRequestBody::Of(packet.kind, operands);
  body.request = sinks_;
  body.stag = packet.rkey;
  body.offset = packet.address;
  std::byte bytes[AtomicRequestBody::kBytes];
  body.Encode(bytes);
  DdpSegment segment = {.opcode = RdmapOpcode::kAtomicRequest,
                        .last = true,
                        .queue = kRequestQueue,
                        .payload_bytes = AtomicRequestBody::kBytes};
  AppendUntagged(segment, bytes);
  CloseSent();
}

void IwarpStream::AppendCount(const Packet& packet) {
  if (!Goes(packet)) return;
  if (terms_.extended) AppendMessage({.kind = StreamMessage::Kind::kCount});
  CloseSent();
}

// The queue pair answers the peer's READs in order.
void IwarpStream::AppendAnswer(const Packet& packet) {
  if (asked_.empty() || asked_.front().number != packet.number) {
    Break("the queue pair answers a READ that the peer has not asked for");
    return;
  }
  Read& read = asked_.front();
  const uint32_t left = read.length - read.offset;
  if (packet.payload_bytes > left ||
      packet.last() != (packet.payload_bytes == left)) {
    Break("the queue pair answers a READ with another length");
    return;
  }
  if (read.atomic) {
    AtomicResponseBody body = {.request = read.name};
    std::memcpy(&body.value, packet.payload,
                std::min<size_t>(packet.payload_bytes, sizeof(body.value)));
    std::byte bytes[AtomicResponseBody::kBytes];
    body.Encode(bytes);
    DdpSegment segment = {.opcode = RdmapOpcode::kAtomicResponse,
                          .last = true,
                          .queue = kAtomicResponseQueue,
                          .payload_bytes = AtomicResponseBody::kBytes};
    AppendUntagged(segment, bytes);
  } else {
    Append({.opcode = RdmapOpcode::kReadResponse,
            .tagged = true,
            .last = packet.last(),
            .stag = read.name,
            .offset = read.sink_offset + read.offset,
            .payload_bytes = packet.payload_bytes},
           packet.payload);
  }
  read.offset += packet.payload_bytes;
  if (packet.last()) asked_.Pop();
}

void IwarpStream::AppendNak(const Packet& packet) {
  const auto reason = static_cast<NakReason>(packet.value & 0xff);
  if (terms_.extended) {
    AppendMessage({.kind = StreamMessage::Kind::kNak,
                   .words = {packet.number, packet.value}});
    if (reason == NakReason::kReceiverNotReady) return;
  }
  std::byte bytes[TerminateBody::kBytes];
  TerminateBody::Of(reason).Encode(bytes);
  DdpSegment segment = {.opcode = RdmapOpcode::kTerminate,
                        .last = true,
                        .queue = kTerminateQueue,
                        .payload_bytes = TerminateBody::kBytes};
  AppendUntagged(segment, bytes);
  terminated_ = !terms_.extended;
}

}  // namespace verbena::soft
