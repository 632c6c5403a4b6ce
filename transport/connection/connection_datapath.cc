#include <utility>

#include "absl/base/optimization.h"
#include "transport/connection/connection.h"
#include "transport/wire/checksum.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

void Connection::OnReceive(absl::Span<const uint8_t> frame) {
  if (ABSL_PREDICT_FALSE(state_ > ConnectionState::kOpen)) return;
  keepalive_.NoteFrame();
  if (ABSL_PREDICT_FALSE(expects_sums_) && !CheckSums(&frame)) return;
  // The whole header is checked here, once: whoever reads it below believes it.
  const bool plain = IsPlainCall(frame);
  const char* error = ABSL_PREDICT_TRUE(plain) ? nullptr : FrameError(frame);
  const auto& header = HeaderIn<FrameHeader>(frame);
  if (ABSL_PREDICT_TRUE(error == nullptr)) error = credits_.Receive(header);
  if (ABSL_PREDICT_FALSE(error != nullptr)) {
    FrameRefused(error);
    return;
  }
  if (ABSL_PREDICT_FALSE((header.flags & kFlagCreditsWanted) != 0)) {
    GrowWindow();
    // A device that refuses receives has ended all its connections.
    if (state_ > ConnectionState::kOpen) return JoinRound();
  }
  JoinRound();
  if (ABSL_PREDICT_TRUE(plain)) {
    served_ = true;
    calls_.OnFrame(frame, /*plain=*/true);
    return;
  }
  switch (header.type) {
    case FrameType::kGrant:  // All it says is in the header.
    case FrameType::kPong:
      return;
    case FrameType::kPing:
    case FrameType::kGoAway:
    case FrameType::kBye:
    case FrameType::kReturn:
      HandleControl(header.type, frame);
      return;
    case FrameType::kRequest:
    case FrameType::kResponse:
      served_ = true;
      [[fallthrough]];
    default:
      calls_.OnFrame(frame, /*plain=*/false);
  }
}

bool Connection::CheckSums(absl::Span<const uint8_t>* frame) {
  FrameSums stated = {};
  uint32_t found = 0;
  const absl::Span<const uint8_t> all = *frame;
  if (!peer_began_sums_ && PrecedesSums(all)) return true;
  if (!TakeSums(frame, &stated, &found) || found != stated.frame) {
    FrameDamaged(all, stated.frame, found);
    return false;
  }
  peer_began_sums_ = true;
  received_sums_ = stated.parts;
  return true;
}

void Connection::OnSendDone(uint64_t wr_id, ibv_wc_status status) {
  // After the first error everything else is flushed; the first one counts.
  if (ABSL_PREDICT_FALSE(status != IBV_WC_SUCCESS)) OnReceiveError(status);
  send_.Complete(wr_id, [this](void* tag) { calls_.OnTransferDone(tag); });
  JoinRound();
}

void Connection::FinishRound() {
  if (ABSL_PREDICT_TRUE(state_ <= ConnectionState::kOpen)) {
    if (calls_wait_) calls_wait_ = calls_.SendWaiting();
    SendOwedControl();
  }
  FlushNow();
  if (ABSL_PREDICT_FALSE(state_ > ConnectionState::kOpen)) CheckDrained();
}

void Connection::FlushNow() {
  Touch();
  const int error = send_.Flush();
  if (ABSL_PREDICT_FALSE(error != 0)) FailPostSlow(error);
}

void Connection::SendWaitingSoon() {
  if (ABSL_PREDICT_TRUE(poller_.in_round())) {
    JoinRound();
  } else if (state_ <= ConnectionState::kOpen) {
    if (calls_wait_) calls_wait_ = calls_.SendWaiting();
    FlushNow();
  }
}

void Connection::SendFrame(uint32_t bytes, bool signalled,
                           uint32_t invalidates) {
  credits_.Stamp(send_.frame());
  if (ABSL_PREDICT_FALSE(sum_bytes_ > 0)) {
    bytes =
        AppendSums(send_.frame(), bytes, std::exchange(part_sums_, PartSums()));
  }
  const int error =
      send_.PostFrame(bytes, signalled || going_away_, invalidates);
  if (ABSL_PREDICT_FALSE(error != 0)) {
    FailPostSlow(error);
  } else {
    FlushSoon();
  }
}

void Connection::SendOwedControl() {
  if (ABSL_PREDICT_FALSE(pong_due_ || ping_due_ || goaway_due_)) {
    if (pong_due_ && SendControl(FrameType::kPong)) pong_due_ = false;
    if (ping_due_ && SendControl(FrameType::kPing)) ping_due_ = false;
    if (goaway_due_ && usable() && SendControl(FrameType::kGoAway)) {
      goaway_due_ = false;
    }
  }
  // Any of the above carried the limit too.
  if (ABSL_PREDICT_FALSE(credits_.GrantDue())) SendGrant();
}

}  // namespace verbena::transport
