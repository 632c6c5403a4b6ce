#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "transport/session/frame_sender.h"
#include "transport/wire/checksum.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

FrameSender::FrameSender(Poller& poller, PollerDevice& device,
                         MemoryDomain& memory, ReceiveBuffers& receives,
                         DeviceCounters& counters, uint32_t continued_bytes_max)
    : DeviceConnection(memory, receives),
      poller_(poller),
      device_(device),
      life_(counters.connections),
      send_(memory.send_buffers(), device.sending().batches,
            device.sending().shared),
      continued_bytes_max_(std::min(continued_bytes_max, kContinuedBytesMax)) {}

void FrameSender::Transition(ConnectionState state) {
  life_.Transition(state);
  device_.connections().Touch(this);
  if (closed()) device_.set_any_closed(true);
}

void FrameSender::SetPeerLimits(const PeerLimits& limits) {
  peer_limits_ = limits;
  credits_.Begin(limits.credits);
}

void FrameSender::BeginSealing(std::unique_ptr<Sealer> sealer) {
  sealer_ = std::move(sealer);
  trailer_bytes_ = kSealedFrameBytes;
  const int error = send_.BeginSealing(sealer_.get());
  if (error != 0) FailPostSlow(error);
}

void FrameSender::FlushNow() {
  device_.connections().Touch(this);
  const int error = send_.Flush();
  if (ABSL_PREDICT_FALSE(error != 0)) FailPostSlow(error);
}

void FrameSender::SendAnyFrame(uint32_t bytes, bool signalled,
                               uint32_t invalidates) {
  credits_.Stamp(send_.frame());
  // Behind Stamp(), because the sum covers what the header says of credits.
  if (ABSL_PREDICT_FALSE(sum_bytes_ > 0)) {
    bytes =
        AppendSums(send_.frame(), bytes, std::exchange(part_sums_, PartSums()));
  }
  const int error =
      send_.PostFrame(bytes, signalled || signals_all_, invalidates);
  if (ABSL_PREDICT_FALSE(error != 0)) {
    FailPostSlow(error);
  } else if (ABSL_PREDICT_TRUE(poller_.in_round())) {
    // All frames of the round share a doorbell.
    device_.JoinRound(this);
  } else {
    FlushNow();
  }
}

// Lets calls that follow join the frame in a train. A SEND invalidates a single
// key, so a frame with a key stays alone.
void FrameSender::SendCall(uint32_t bytes, uint32_t invalidates) {
  if (!send_.begun_in_train()) {
    SendAnyFrame(bytes, /*signalled=*/false, invalidates);
    if (trains_ && invalidates == 0) send_.BeginTrain(bytes);
    return;
  }
  const int error = send_.PostInTrain(bytes);
  if (ABSL_PREDICT_FALSE(error != 0)) FailPostSlow(error);
}

bool FrameSender::CanSendContinued(uint64_t frame_bytes,
                                   uint32_t spare_credits) {
  if (frame_bytes > continued_bytes_max_) return false;
  // All parts go now or none: nothing else that needs a credit may come
  // between them.
  const uint32_t sends = static_cast<uint32_t>(SendsFor(frame_bytes));
  return CanSend(spare_credits + sends - 1) && send_.HasRoomFor(sends);
}

// The first SEND begins with the frame's own header, which says that more
// follows; each other one has a header of a CONTINUATION.
void FrameSender::SendContinued(absl::Span<uint8_t> frame,
                                uint32_t invalidates) {
  FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof(header));
  header.flags |= kFlagContinued;
  std::memcpy(frame.data(), &header, sizeof(header));
  const size_t first = std::min<size_t>(SendRoom(), frame.size());
  // No credits are spared here: CanSendContinued() has seen to that.
  uint8_t* out = BeginFrame(static_cast<uint32_t>(first), /*spare_credits=*/0);
  if (out == nullptr) return;
  std::memcpy(out, frame.data(), first);
  Send(static_cast<uint32_t>(first), invalidates);
  frame.remove_prefix(first);
  while (!frame.empty()) {
    const size_t bytes =
        std::min<size_t>(SendRoom() - sizeof(header), frame.size());
    // Null only if the connection has just been lost.
    out = BeginFrame(static_cast<uint32_t>(sizeof(header) + bytes),
                     /*spare_credits=*/0);
    if (out == nullptr) return;
    FrameHeader next = PlainHeader(FrameType::kContinuation, header.call_id);
    next.body_bytes = static_cast<uint32_t>(bytes);
    std::memcpy(out, &next, sizeof(next));
    std::memcpy(out + sizeof(next), frame.data(), bytes);
    Send(static_cast<uint32_t>(sizeof(next) + bytes));
    frame.remove_prefix(bytes);
  }
}

// Sends at once or not at all. A frame that cannot go now stays owed:
// see Connection::SendOwedControl().
bool FrameSender::SendControl(FrameType type, absl::string_view body,
                              uint8_t flags) {
  if (NeedsCredit(type, flags) && !credits_.has_credit()) return false;
  if (!send_.HasFrameRoom()) return false;
  // Only a BYE has a body. A reason that is too long is cut, because the peer
  // must hear of the end in any case.
  body = body.substr(0, SendRoom() - sizeof(FrameHeader));
  FrameHeader header = PlainHeader(type, 0);
  header.flags = flags;
  header.body_bytes = static_cast<uint32_t>(body.size());
  const uint32_t bytes = static_cast<uint32_t>(sizeof(header) + body.size());
  uint8_t* const out = BeginAnyFrame(bytes);
  if (out == nullptr) return false;
  std::memcpy(out, &header, sizeof(header));
  if (!body.empty()) {
    std::memcpy(out + sizeof(header), body.data(), body.size());
  }
  // The completion of a BYE ends the wait for it (sends_done()), so the frame
  // must not complete silently.
  SendAnyFrame(bytes, /*signalled=*/true);
  return true;
}

}  // namespace verbena::transport
