#include <algorithm>
#include <utility>

#include "absl/base/optimization.h"
#include "transport/session/connection.h"
#include "transport/wire/checksum.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

void Connection::OnReceive(absl::Span<const uint8_t> frame) {
  if (ABSL_PREDICT_FALSE(state_ > ConnectionState::kOpen)) return OnLateFrame();
  keepalive_.NoteFrame();
  if (ABSL_PREDICT_FALSE(expects_sums_) && !CheckSums(&frame)) return;
  // The whole header is checked here, once: whoever reads it below believes it.
  bool plain = IsPlainCall(frame);
  const char* error = nullptr;
  absl::Span<const uint8_t> rest;  // A train's other frames.
  if (ABSL_PREDICT_FALSE(!plain)) {
    if (trains_) plain = CutTrain(&frame, &rest);
    if (!plain) error = FrameError(frame);
  }
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
      served_ = true;
      [[fallthrough]];
    default:
      calls_.OnFrame(frame, /*plain=*/false);
  }
  if (!rest.empty()) OnTrain(rest);
}

bool Connection::CutTrain(absl::Span<const uint8_t>* frame,
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

// The frames behind the first one are checked as they come up, so one that is
// wrong ends the connection after those before it, as if each had come alone.
void Connection::OnTrain(absl::Span<const uint8_t> rest) {
  for (uint32_t frames = 1; !rest.empty(); ++frames) {
    // The connection may have begun to close.
    if (state_ > ConnectionState::kOpen) return;
    if (frames == kTrainFrames) {
      return FrameRefused("a train has more frames than may be");
    }
    // The receive buffer begins on such a multiple.
    const size_t padding =
        -reinterpret_cast<uintptr_t>(rest.data()) % kTrainAlignment;
    rest.remove_prefix(std::min(padding, rest.size()));
    const size_t bytes = FirstFrameBytes(rest);
    if (bytes < sizeof(FrameHeader) || bytes > rest.size()) {
      return FrameRefused("a train ends in the middle of a frame");
    }
    const absl::Span<const uint8_t> frame = rest.first(bytes);
    rest.remove_prefix(bytes);
    const bool plain = IsPlainCall(frame);
    if (const char* const error = TrainFrameError(frame, plain)) {
      return FrameRefused(error);
    }
    calls_.OnFrame(frame, plain);
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
  if (ABSL_PREDICT_FALSE(!send_.Complete(
          wr_id, [this](void* tag) { calls_.OnTransferDone(tag); }))) {
    OnMisreport("the completion of a request that was not under way");
  }
  JoinRound();
}

void Connection::FinishRound() {
  if (ABSL_PREDICT_TRUE(state_ <= ConnectionState::kOpen)) {
    if (calls_wait_) calls_wait_ = calls_.SendWaiting();
    SendOwedControl();
  }
  FlushNow();
  // The next tick finds out that nothing comes any more.
  if (ABSL_PREDICT_FALSE(state_ > ConnectionState::kOpen) && send_.idle()) {
    CheckDrained();
  }
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

void Connection::SendCall(uint32_t bytes, uint32_t invalidates) {
  if (!send_.begun_in_train()) {
    SendFrame(bytes, /*signalled=*/false, invalidates);
    if (trains_ && invalidates == 0) send_.BeginTrain(bytes);
    return;
  }
  const int error = send_.PostInTrain(bytes);
  if (ABSL_PREDICT_FALSE(error != 0)) FailPostSlow(error);
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
