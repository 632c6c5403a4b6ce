#include <cstdint>

#include "absl/base/optimization.h"
#include "transport/soft/connected/packet_exchange.h"

namespace verbena::soft {
namespace {

// Bounds of one pass, so that no queue pair of a completion queue starves.
// There are few packets to a pass, so that the user answers the first while the
// peer still sends the last. If each side took all there is, one would always
// wait while the other works.
constexpr int kPacketsPerPass = 8;
constexpr uint32_t kBytesPerPass = 4 * kSegmentBytes;
constexpr int kTransmitsPerPass = 64;

}  // namespace

PacketExchange::Taken PacketExchange::TakePackets() {
  Packet packet;
  uint32_t bytes = 0;
  for (int i = 0; i < kPacketsPerPass && bytes < kBytesPerPass; ++i) {
    const LinkEnd::Incoming incoming = link_.Peek(packet);
    if (incoming == LinkEnd::Incoming::kNothing) {
      return i == 0 ? Taken::kNothing : Taken::kPackets;
    }
    if (ABSL_PREDICT_FALSE(incoming == LinkEnd::Incoming::kBroken ||
                           !HandlePacket(packet))) {
      return Taken::kBroken;
    }
    bytes += packet.payload_bytes;
    link_.Consume(packet);  // Its payload has been copied out of the ring.
    link_.set_executed(responder_.executed());
    if (link_.ShouldTellProgress()) link_.TellProgress();
  }
  return Taken::kPackets;
}

// Returns false when a correct peer cannot have sent the packet.
inline bool PacketExchange::HandlePacket(const Packet& packet) {
  switch (packet.kind) {
    case PacketKind::kReadResponse:
      return requester_.OnReadResponse(packet) &&
             requester_.OnExecuted(packet.executed);
    case PacketKind::kNak:
      nak_received_ = true;
      return requester_.OnNak(packet);
    default:
      return requester_.OnExecuted(packet.executed) &&
             responder_.OnPacket(packet);
  }
}

bool PacketExchange::ReadPeerWords() {
  uint32_t executed = 0;
  return link_.ReadPeerProgress(executed) && requester_.OnExecuted(executed);
}

bool PacketExchange::Transmit() {
  int sent = 0;
  for (bool more = true; more && sent < kTransmitsPerPass; ++sent) {
    if (ABSL_PREDICT_FALSE(responder_.wants_progress())) {
      more = TransmitBoth();
    } else {
      more = requester_.has_unsent() && requester_.TransmitOne(link_);
    }
  }
  return sent == kTransmitsPerPass;
}

// A response, and then a request. If the peer takes them whole, a WRITE or a
// response that has begun holds up the other.
bool PacketExchange::TransmitBoth() {
  const bool writes = requester_.has_unsent() && requester_.NextIsWrite() &&
                      link_.peer_takes_whole();
  bool more = false;
  if (!writes || !requester_.in_message()) {
    more = responder_.TransmitOne(link_);
    if (writes && responder_.in_response()) return more;
  }
  if (requester_.has_unsent()) more |= requester_.TransmitOne(link_);
  return more;
}

bool PacketExchange::TransferUnderWay() const {
  return responder_.wants_progress() || responder_.in_message() ||
         requester_.reads_under_way() ||
         (requester_.has_unsent() &&
          requester_.resume_at() == Requester::TimePoint::max());
}

}  // namespace verbena::soft
