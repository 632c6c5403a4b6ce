#include <algorithm>
#include <utility>

#include "absl/base/optimization.h"
#include "transport/session/connection.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

namespace {

// If what one SEND brought is a train, cuts it into its first frame and the
// rest. Returns whether that first frame is a plain call.
bool CutTrain(absl::Span<const uint8_t>* frame,
              absl::Span<const uint8_t>* rest) {
  const absl::Span<const uint8_t> all = *frame;
  const size_t bytes = FirstFrameBytes(all);
  // A wrong length is for FrameError() to find.
  if (bytes < sizeof(FrameHeader) || bytes >= all.size()) return false;
  const FrameType type = HeaderIn<FrameHeader>(all).type;
  if (type != FrameType::kRequest && type != FrameType::kResponse) return false;
  *frame = all.first(bytes);
  *rest = all.subspan(bytes);
  return IsPlainCall(*frame);
}

}  // namespace

// Everything in a frame is checked here, before its type decides who handles
// it. A plain call, which most frames are, needs one comparison for that.
void Connection::OnReceive(absl::Span<const uint8_t> frame) {
  if (ABSL_PREDICT_FALSE(life().ending())) return ending_.OnLateFrame();
  keepalive_.NoteFrame();
  if (ABSL_PREDICT_FALSE(guards_frames_) && !CheckFrame(&frame)) return;
  // The whole header is checked here, once: whoever reads it below believes it.
  bool plain = IsPlainCall(frame);
  const char* error = nullptr;
  absl::Span<const uint8_t> rest;  // A train's other frames.
  if (ABSL_PREDICT_FALSE(!plain)) {
    // A plain frame fills its SEND, so only another one can begin a train.
    if (allows_trains()) plain = CutTrain(&frame, &rest);
    if (!plain) error = FrameError(frame);
  }
  const auto& header = HeaderIn<FrameHeader>(frame);
  if (ABSL_PREDICT_TRUE(error == nullptr)) {
    error = credit_flow().Receive(header);
  }
  if (ABSL_PREDICT_FALSE(error != nullptr)) return ProtocolError(error);
  if (ABSL_PREDICT_FALSE((header.flags & kFlagCreditsWanted) != 0)) {
    balance_.GrowWindow(*this);
    // A device that refuses receives has ended all its connections.
    if (life().ending()) return device().JoinRound(this);
  }
  // FinishRound() rings the doorbell for all that this frame brings about, and
  // sends the GRANT that it may have made due.
  device().JoinRound(this);
  if (ABSL_PREDICT_TRUE(plain)) {
    balance_.NoteServed();
    calls_.OnFrame(frame, /*plain=*/true);
    if (!rest.empty()) OnTrain(rest);
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
      balance_.NoteServed();
      [[fallthrough]];
    default:
      calls_.OnFrame(frame, /*plain=*/false);
  }
  if (!rest.empty()) OnTrain(rest);
}

// The frames behind the first one are checked as they come up, so one that is
// wrong ends the connection after those before it, as if each had come alone.
void Connection::OnTrain(absl::Span<const uint8_t> rest) {
  for (uint32_t frames = 1; !rest.empty(); ++frames) {
    // The connection may have begun to close.
    if (life().ending()) return;
    if (frames == kTrainFrames) {
      return ProtocolError("a train has more frames than may be");
    }
    // The receive buffer begins on such a multiple.
    const size_t padding =
        -reinterpret_cast<uintptr_t>(rest.data()) % kTrainAlignment;
    rest.remove_prefix(std::min(padding, rest.size()));
    const size_t bytes = FirstFrameBytes(rest);
    if (bytes < sizeof(FrameHeader) || bytes > rest.size()) {
      return ProtocolError("a train ends in the middle of a frame");
    }
    const absl::Span<const uint8_t> frame = rest.first(bytes);
    rest.remove_prefix(bytes);
    const bool plain = IsPlainCall(frame);
    if (const char* const error = TrainFrameError(frame, plain)) {
      return ProtocolError(error);
    }
    calls_.OnFrame(frame, plain);
  }
}

void Connection::OnSendDone(uint64_t wr_id, ibv_wc_status status) {
  // After the first error everything else is flushed; the first one counts.
  if (ABSL_PREDICT_FALSE(status != IBV_WC_SUCCESS)) OnReceiveError(status);
  if (ABSL_PREDICT_FALSE(!send_queue().Complete(
          wr_id, [this](void* tag) { calls_.OnTransferDone(tag); }))) {
    OnMisreport("the completion of a request that was not under way");
  }
  // The queue has room again: FinishRound() sends what waits for it.
  device().JoinRound(this);
}

void Connection::FinishRound() {
  if (ABSL_PREDICT_TRUE(!life().ending())) {
    // Frames of calls go first: each carries the limit, and may save a GRANT.
    if (calls_wait_) calls_wait_ = calls_.SendWaiting();
    SendOwedControl();
  }
  FlushNow();
  // The next tick finds out that nothing comes any more.
  if (ABSL_PREDICT_FALSE(life().ending()) && sends_done()) {
    ending_.Check();
  }
}

// Outside of a round nothing may wait for the next one, so it goes at once.
void Connection::SendWaitingSoon() {
  if (ABSL_PREDICT_TRUE(poller().in_round())) {
    device().JoinRound(this);
  } else if (!life().ending()) {
    if (calls_wait_) calls_wait_ = calls_.SendWaiting();
    FlushNow();
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
  if (ABSL_PREDICT_FALSE(credit_flow().GrantDue())) balance_.SendGrant(*this);
}

}  // namespace verbena::transport
