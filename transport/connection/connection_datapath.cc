#include <cstring>
#include <utility>

#include "transport/base/check.h"
#include "transport/connection/connection.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

void Connection::OnReceive(absl::Span<const uint8_t> frame) {
  if (__builtin_expect(state_ > ConnectionState::kOpen, 0)) return;
  heard_ = true;
  if (const char* error = FrameError(frame); error != nullptr) {
    ProtocolError(error);
    return;
  }
  const FrameHeader header = LoadHeader<FrameHeader>(frame);
  if (const char* error = TakeCredits(header); error != nullptr) {
    ProtocolError(error);
    return;
  }
  switch (header.type) {
    case FrameType::kGrant:
      break;
    case FrameType::kRequest:
    case FrameType::kResponse:
      served_ = true;
      HandleFrame(header.type, frame);
      break;
    case FrameType::kPing:
    case FrameType::kPong:
    case FrameType::kGoAway:
    case FrameType::kBye:
    case FrameType::kReturn:
      HandleControl(header.type, frame);
      break;
    default:
      HandleFrame(header.type, frame);
  }
  poller_.AtRoundEnd(this);
}

const char* Connection::TakeCredits(const FrameHeader& header) {
  if (!send_credits_.has_value()) return "it sent something too early";
  if (header.type == FrameType::kGrant &&
      (!send_credits_->IsNews(header.credit_limit) || !grants_.Receive())) {
    return "it sent a GRANT out of turn";
  }
  if (!send_credits_->Update(header.credit_limit)) {
    return "its credit limit went back or beyond its window";
  }
  if (!grants_.Acknowledge((header.flags & kFlagGrantRead) != 0)) {
    return "it read a GRANT that was not sent";
  }
  if (header.type != FrameType::kGrant && !receive_credits_.Receive()) {
    return "it sent more messages than it had credits for";
  }
  if ((header.flags & kFlagCreditsWanted) != 0) GrowWindow();
  return nullptr;
}

void Connection::OnSendDone(uint64_t wr_id, ibv_wc_status status) {
  if (__builtin_expect(status != IBV_WC_SUCCESS, 0)) {
    OnSendError(status);
  }
  send_.Complete(wr_id, [this](void* tag) { OnBulkDone(tag); });
  poller_.AtRoundEnd(this);
}

void Connection::OnRoundEnd() {
  if (state_ <= ConnectionState::kOpen) {
    Pump();
    PumpControl();
  }
  FlushNow();
  CheckDrained();
}

void Connection::FlushNow() {
  const absl::Status status = send_.Flush();
  if (__builtin_expect(!status.ok(), 0)) Close(status);
}

void Connection::FlushSoon() {
  if (poller_.in_round()) {
    poller_.AtRoundEnd(this);
  } else {
    FlushNow();
  }
}

void Connection::PumpSoon() {
  if (poller_.in_round()) {
    poller_.AtRoundEnd(this);
  } else if (state_ <= ConnectionState::kOpen) {
    Pump();
    FlushNow();
  }
}

uint8_t* Connection::BeginFrame(uint32_t bytes, uint32_t spare_credits) {
  return CanSend(spare_credits) ? BeginAnyFrame(bytes) : nullptr;
}

uint8_t* Connection::BeginAnyFrame(uint32_t bytes) {
  uint8_t* const frame = send_.BeginFrame(bytes);
  if (__builtin_expect(frame == nullptr, 0)) device_.WaitForSendSlot(this);
  return frame;
}

void Connection::Send(uint32_t bytes, bool signalled) {
  uint8_t* const frame = send_.frame();
  FrameHeader header;
  std::memcpy(&header, frame, sizeof(header));
  header.credit_limit = receive_credits_.Advertise();
  if (grants_.Say()) header.flags |= kFlagGrantRead;
  if (starved_) header.flags |= kFlagCreditsWanted;
  std::memcpy(frame, &header, sizeof(header));
  starved_ = false;
  if (NeedsCredit(header.type)) send_credits_->Take();
  const absl::Status status = send_.PostFrame(bytes, signalled || going_away_);
  if (__builtin_expect(!status.ok(), 0)) {
    Close(status);
  } else {
    FlushSoon();
  }
}

void Connection::PumpControl() {
  if (pong_due_ && SendControl(FrameType::kPong)) pong_due_ = false;
  if (ping_due_ && SendControl(FrameType::kPing)) ping_due_ = false;
  if (goaway_due_ && SendControl(FrameType::kGoAway)) goaway_due_ = false;
  // Any of the above carried the limit too.
  if (receive_credits_.GrantDue() && grants_.may_send()) SendGrant();
}

void Connection::SendGrant() {
  if (!send_credits_.has_value() || !send_.HasFramePlace()) return;
  // A peer that calls while nothing is sent to it would need one GRANT a call.
  if (std::exchange(served_, false) &&
      receive_credits_.window() == kIdleCredits) {
    GrowWindow();
    // A device that refuses receives has ended all its connections.
    if (state_ > ConnectionState::kOpen) return;
  }
  uint8_t* const out = BeginAnyFrame(sizeof(FrameHeader));
  if (out == nullptr) return;
  const FrameHeader header = PlainHeader(FrameType::kGrant, 0);
  std::memcpy(out, &header, sizeof(header));
  grants_.Sent();
  Send(sizeof(header), /*signalled=*/false);
}

}  // namespace verbena::transport
