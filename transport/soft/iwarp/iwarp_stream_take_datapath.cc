// The meaning of the peer's messages to the queue pair.

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "transport/soft/base/copy_bytes.h"
#include "transport/soft/iwarp/iwarp_stream.h"

namespace verbena::soft {
namespace {

bool IsSolicited(RdmapOpcode opcode) {
  return opcode == RdmapOpcode::kSendSolicited ||
         opcode == RdmapOpcode::kSendSolicitedInvalidate ||
         opcode == RdmapOpcode::kImmediateSolicited;
}

bool Invalidates(RdmapOpcode opcode) {
  return opcode == RdmapOpcode::kSendInvalidate ||
         opcode == RdmapOpcode::kSendSolicitedInvalidate;
}

constexpr uint8_t kWhole = kPacketFirst | kPacketLast;

}  // namespace

// Takes a segment whose CRC is right. If there is no room for it, it is given
// again later, so nothing is noted before there is.
IwarpStream::Taken IwarpStream::TakeSegment(const DdpSegment& segment,
                                            const std::byte* payload) {
  if (CarriesData(segment.opcode)) return TakeData(segment, payload);
  if (!segment.last || segment.offset != 0) {
    return Break("a message of RDMAP opcode %u in several segments",
                 static_cast<unsigned>(segment.opcode));
  }
  if (segment.sequence != in_sequence_[segment.queue]) {
    return Break("message %u of untagged queue %u where %u is the next",
                 segment.sequence, segment.queue, in_sequence_[segment.queue]);
  }
  const uint32_t bytes = BodyBytes(segment.opcode);
  if (bytes != 0 && segment.payload_bytes != bytes) {
    return Break("a message of RDMAP opcode %u with %u bytes instead of %u",
                 static_cast<unsigned>(segment.opcode), segment.payload_bytes,
                 bytes);
  }
  Taken taken = Taken::kBroken;
  switch (segment.opcode) {
    case RdmapOpcode::kImmediate:
    case RdmapOpcode::kImmediateSolicited:
      taken = TakeImmediate(segment, payload);
      break;
    case RdmapOpcode::kReadRequest:
      taken = TakeReadRequest(payload);
      break;
    case RdmapOpcode::kAtomicRequest:
      taken = TakeAtomicRequest(payload);
      break;
    case RdmapOpcode::kAtomicResponse:
      taken = TakeAtomicResponse(payload);
      break;
    case RdmapOpcode::kTerminate:
      if (segment.payload_bytes < TerminateBody::kBytes) {
        return Break("a Terminate without its codes");
      }
      taken = TakeTerminate(payload);
      break;
    default:
      taken = TakeExtended(segment, payload);
      break;
  }
  if (taken == Taken::kYes) ++in_sequence_[segment.queue];
  return taken;
}

// Cuts a segment of another kind of sender, which may have 64 KiB, into packets
// of at most kSegmentBytes. Those that were published are not published again
// when there is room for the others.
IwarpStream::Taken IwarpStream::TakeData(const DdpSegment& segment,
                                         const std::byte* payload) {
  while (true) {
    const uint32_t left = segment.payload_bytes - cut_;
    DdpSegment piece = segment;
    piece.payload_bytes = std::min(left, kSegmentBytes);
    piece.offset = segment.offset + cut_;
    piece.last = segment.last && piece.payload_bytes == left;
    Taken taken = Taken::kBroken;
    if (segment.opcode == RdmapOpcode::kWrite) {
      taken = TakeWrite(
          piece,
          segment.last && cut_ == 0 ? segment.payload_bytes : kUnknownLength,
          payload + cut_);
    } else if (segment.opcode == RdmapOpcode::kReadResponse) {
      taken = TakeReadResponse(piece, payload + cut_);
    } else {
      taken = TakeSend(piece, payload + cut_);
    }
    if (taken != Taken::kYes) return taken;
    cut_ += piece.payload_bytes;
    if (cut_ == segment.payload_bytes) return Taken::kYes;
  }
}

// Publishes a packet. The payload may be in its place already: see
// StartDirect().
IwarpStream::Taken IwarpStream::Put(const Packet& packet,
                                    const std::byte* payload) {
  std::byte* const to = link_.Reserve(packet.payload_bytes);
  if (to == nullptr) {
    // A queue pair that has left would never make room. Its packets are
    // dropped, so that what is behind them is still read.
    return link_.peer_state() == kLinkClosed ? Taken::kYes : Taken::kNoRoom;
  }
  if (to != payload && packet.payload_bytes != 0) {
    CopyBytes(to, payload, packet.payload_bytes);
  }
  link_.Publish(packet);
  return Taken::kYes;
}

// Publishes a request of one packet without data.
IwarpStream::Taken IwarpStream::PutCounted(const Packet& packet) {
  const Taken taken = Put(packet, packet.payload);
  if (taken == Taken::kYes) CloseReceived(packet.flags);
  return taken;
}

// A request with these flags has come whole.
void IwarpStream::CloseReceived(uint8_t flags) {
  in_ = {.number = in_.number + 1};
  if ((flags & kPacketUnhurried) == 0) awaited_ = in_.number;
}

IwarpStream::Taken IwarpStream::TakeSend(const DdpSegment& segment,
                                         const std::byte* payload) {
  if (in_.open && (in_.kind != PacketKind::kSend || in_.ended)) {
    return Break("a Send within another message");
  }
  if (segment.sequence != in_sequence_[kSendQueue] ||
      segment.offset != in_.offset) {
    return Break("byte %llu of Send %u where byte %u of %u is the next",
                 static_cast<unsigned long long>(segment.offset),
                 segment.sequence, in_.offset, in_sequence_[kSendQueue]);
  }
  if (segment.payload_bytes > kMessageBytesMax - in_.offset) {
    return Break("a Send of more than 2 GiB");
  }
  const bool invalidates = Invalidates(segment.opcode);
  const bool immediate =
      terms_.extended && segment.last && segment.immediate_follows;
  if (immediate && invalidates) {
    return Break("a Send that invalidates, with immediate data");
  }
  Packet packet;
  packet.kind = PacketKind::kSend;
  packet.payload_bytes = segment.payload_bytes;
  packet.number = in_.number;
  if (!in_.open) packet.flags |= kPacketFirst;
  if (segment.last && !immediate) {
    packet.flags |= kPacketLast;
    if (IsSolicited(segment.opcode)) packet.flags |= kPacketSolicited;
    if (invalidates) {
      packet.flags |= kPacketInvalidate;
      packet.value = segment.stag;
    }
  }
  // The sender of a plain peer has its completion from TCP.
  if (terms_.extended ? segment.unhurried : (packet.flags & kWhole) == kWhole) {
    packet.flags |= kPacketUnhurried;
  }
  if (const Taken taken = Put(packet, payload); taken != Taken::kYes) {
    return taken;
  }
  in_.open = true;
  in_.kind = PacketKind::kSend;
  in_.offset += segment.payload_bytes;
  if (segment.last) {
    ++in_sequence_[kSendQueue];
    in_.ended = true;
    if (!immediate) CloseReceived(packet.flags);
  }
  return Taken::kYes;
}

// `length` is that of the message, if it is known and this is its beginning.
IwarpStream::Taken IwarpStream::TakeWrite(const DdpSegment& segment,
                                          uint32_t length,
                                          const std::byte* payload) {
  if (in_.open && (in_.kind != PacketKind::kWrite || in_.ended)) {
    return Break("an RDMA Write within another message");
  }
  if (in_.open && (segment.stag != in_.rkey ||
                   segment.offset != in_.address + in_.offset)) {
    return Break("an RDMA Write to 0x%llx of key 0x%x that goes on elsewhere",
                 static_cast<unsigned long long>(segment.offset), segment.stag);
  }
  if (segment.payload_bytes > kMessageBytesMax - in_.offset) {
    return Break("an RDMA Write of more than 2 GiB");
  }
  // A Write of nothing names no memory and needs no right. Other kinds of peer
  // begin or end a stream by it, whatever the queue pair permits.
  if (!terms_.extended && !in_.open && segment.last &&
      segment.payload_bytes == 0) {
    return Taken::kYes;
  }
  const bool immediate = terms_.extended && segment.immediate_follows;
  Packet packet;
  packet.kind = PacketKind::kWrite;
  packet.payload_bytes = segment.payload_bytes;
  packet.number = in_.number;
  if (!in_.open) {
    packet.flags |= kPacketFirst;
    packet.address = segment.offset;
    packet.rkey = segment.stag;
    packet.value = length;
    if (immediate) packet.flags |= kPacketImmediate;
  }
  if (segment.last && !immediate) packet.flags |= kPacketLast;
  if (const Taken taken = Put(packet, payload); taken != Taken::kYes) {
    return taken;
  }
  if (!in_.open) {
    in_.open = true;
    in_.kind = PacketKind::kWrite;
    in_.rkey = segment.stag;
    in_.address = segment.offset;
  }
  in_.offset += segment.payload_bytes;
  in_.ended = segment.last;
  if (segment.last && !immediate) CloseReceived(packet.flags);
  return Taken::kYes;
}

// Closes the message that has announced it. Plain peers announce nothing: to
// them it is a request of its own, as a WRITE of nothing with immediate data.
IwarpStream::Taken IwarpStream::TakeImmediate(const DdpSegment& segment,
                                              const std::byte* payload) {
  if (!in_.open && !terms_.extended) {
    const Taken taken = Put({.kind = PacketKind::kWrite,
                             .flags = kPacketFirst | kPacketImmediate,
                             .number = in_.number},
                            nullptr);
    if (taken != Taken::kYes) return taken;
    in_.open = in_.ended = true;
    in_.kind = PacketKind::kWrite;
  }
  if (!in_.ended) return Break("immediate data that no message has announced");
  Packet packet;
  packet.kind = in_.kind;
  packet.flags = kPacketLast | kPacketImmediate;
  if (IsSolicited(segment.opcode)) packet.flags |= kPacketSolicited;
  if (segment.unhurried && terms_.extended) packet.flags |= kPacketUnhurried;
  packet.number = in_.number;
  std::memcpy(&packet.value, payload, sizeof(packet.value));
  return PutCounted(packet);
}

IwarpStream::Taken IwarpStream::TakeReadResponse(const DdpSegment& segment,
                                                 const std::byte* payload) {
  if (reads_.empty()) return Break("a Read Response, but no READ is under way");
  Read& read = reads_.front();
  if (read.atomic || segment.stag != read.name) {
    return Break("a Read Response that is not for the oldest READ");
  }
  const uint32_t left = read.length - read.offset;
  if (segment.offset != read.offset || segment.payload_bytes > left) {
    return Break("%u bytes of a Read Response at %llu, where %u are due at %u",
                 segment.payload_bytes,
                 static_cast<unsigned long long>(segment.offset), left,
                 read.offset);
  }
  if (segment.last != (segment.payload_bytes == left) ||
      (segment.payload_bytes == 0 && !segment.last)) {
    return Break("a Read Response that ends elsewhere than its READ");
  }
  Packet packet;
  packet.kind = PacketKind::kReadResponse;
  packet.flags = kPacketUnhurried;
  if (read.offset == 0) packet.flags |= kPacketFirst;
  if (segment.last) packet.flags |= kPacketLast;
  packet.payload_bytes = segment.payload_bytes;
  packet.number = read.number;
  if (const Taken taken = Put(packet, payload); taken != Taken::kYes) {
    return taken;
  }
  read.offset += segment.payload_bytes;
  if (segment.last) reads_.Pop();
  return Taken::kYes;
}

// A request beyond those that the queue pair may have to answer waits until
// some are answered, or is dropped if none will be.
IwarpStream::Taken IwarpStream::HoldRequest() {
  if (link_.peer_state() != kLinkClosed) return Taken::kNoRoom;
  CloseReceived(kPacketUnhurried);
  return Taken::kYes;
}

IwarpStream::Taken IwarpStream::TakeReadRequest(const std::byte* payload) {
  if (in_.open) return Break("a Read Request within another message");
  if (asked_.full()) return HoldRequest();
  const ReadRequestBody body = ReadRequestBody::Parse(payload);
  const uint32_t number = in_.number;
  const Taken taken = PutCounted({.kind = PacketKind::kRead,
                                  .flags = kWhole,
                                  .number = number,
                                  .rkey = body.source_stag,
                                  .value = body.length,
                                  .address = body.source_offset});
  if (taken != Taken::kYes) return taken;
  asked_.Push({.number = number,
               .name = body.sink_stag,
               .length = body.length,
               .sink_offset = body.sink_offset});
  return taken;
}

IwarpStream::Taken IwarpStream::TakeAtomicRequest(const std::byte* payload) {
  if (in_.open) return Break("an Atomic Request within another message");
  if (asked_.full()) return HoldRequest();
  const AtomicRequestBody body = AtomicRequestBody::Parse(payload);
  AtomicOperands operands;
  const uint32_t number = in_.number;
  Packet packet;
  if (!body.ToPacket(packet.kind, operands)) {
    return Break("an Atomic Request with masks, or of the operation %u",
                 body.operation);
  }
  packet.flags = kWhole;
  packet.number = number;
  packet.rkey = body.stag;
  packet.address = body.offset;
  packet.payload_bytes = sizeof(operands);
  packet.payload = reinterpret_cast<const std::byte*>(&operands);
  const Taken taken = PutCounted(packet);
  if (taken != Taken::kYes) return taken;
  asked_.Push({.number = number,
               .name = body.request,
               .length = kAtomicBytes,
               .atomic = true});
  return taken;
}

IwarpStream::Taken IwarpStream::TakeAtomicResponse(const std::byte* payload) {
  const AtomicResponseBody body = AtomicResponseBody::Parse(payload);
  if (reads_.empty() || !reads_.front().atomic ||
      reads_.front().name != body.request) {
    return Break("an Atomic Response that is not for the oldest atomic");
  }
  const Taken taken = Put({.kind = PacketKind::kReadResponse,
                           .flags = kWhole | kPacketUnhurried,
                           .payload_bytes = kAtomicBytes,
                           .number = reads_.front().number},
                          reinterpret_cast<const std::byte*>(&body.value));
  if (taken == Taken::kYes) reads_.Pop();
  return taken;
}

// Another of this device has said the same by a kNak before, and goes on to say
// how it ends.
IwarpStream::Taken IwarpStream::TakeTerminate(const std::byte* payload) {
  if (terms_.extended) return Taken::kYes;
  const TerminateBody body = TerminateBody::Parse(payload);
  std::snprintf(error_.data(), error_.size(),
                "the peer has ended the stream: %s (layer %u, type %u, code "
                "%u)",
                body.text(), body.layer, body.type, body.code);
  ended_ = stopped_ = true;
  return Taken::kYes;
}

IwarpStream::Taken IwarpStream::TakeExtended(const DdpSegment& segment,
                                             const std::byte* payload) {
  using Kind = StreamMessage::Kind;
  if (!terms_.extended) {
    return Break("RDMAP opcode 15 from a peer that is not this device");
  }
  if (segment.payload_bytes < StreamMessage::kHeadBytes) {
    return Break("an extended message of %u bytes", segment.payload_bytes);
  }
  StreamMessage message;
  message.kind = static_cast<Kind>(LoadBig32(payload));
  message.words[0] = LoadBig64(payload + 4);
  message.words[1] = LoadBig64(payload + 12);
  if (segment.payload_bytes != message.bytes()) {
    return Break("an extended message of kind %u with %u bytes",
                 static_cast<unsigned>(message.kind), segment.payload_bytes);
  }
  const auto number = static_cast<uint32_t>(message.words[0]);
  switch (message.kind) {
    case Kind::kAck:
      // The queue pair refuses a number that cannot be.
      link_.set_executed(number);
      return Taken::kYes;
    case Kind::kNak:
      return Put({.kind = PacketKind::kNak,
                  .flags = kWhole,
                  .number = number,
                  .value = static_cast<uint32_t>(message.words[1])},
                 nullptr);
    case Kind::kResume:
      return TakeResume(number);
    case Kind::kCount:
      if (in_.open) return Break("a count within another message");
      return PutCounted(
          {.kind = PacketKind::kCount, .flags = kWhole, .number = in_.number});
    case Kind::kState:
      return TakeForUser(message);
    case Kind::kCm:
      std::memcpy(message.cm.data(), payload + StreamMessage::kHeadBytes,
                  sizeof(CmMessage));
      return TakeForUser(message);
  }
  return Break("an extended message of the unknown kind %u",
               static_cast<unsigned>(message.kind));
}

IwarpStream::Taken IwarpStream::TakeForUser(const StreamMessage& message) {
  if (messages_.full()) return Taken::kNoRoom;
  messages_.Push(message);
  return Taken::kYes;
}

// The peer goes on with another request. One that it has not finished has taken
// a number of its queue, which does not come again.
IwarpStream::Taken IwarpStream::TakeResume(uint32_t number) {
  if (in_.open && in_.kind == PacketKind::kSend && !in_.ended) {
    ++in_sequence_[kSendQueue];
  }
  in_ = {.number = number};
  Forget(asked_, number);
  return Taken::kYes;
}

}  // namespace verbena::soft
