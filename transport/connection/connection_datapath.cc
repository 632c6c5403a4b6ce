#include <cstddef>
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
  if (!send_credits_.has_value() ||
      !send_credits_->Update(header.credit_limit)) {
    ProtocolError("its credit limit went back or beyond its window");
    return;
  }
  if (NeedsCredit(header.type)) {
    if (!receive_credits_.Receive()) {
      ProtocolError("it sent more messages than it had credits for");
      return;
    }
    HandleFrame(header.type, frame);
  } else {
    HandleControl(header.type, frame);
  }
  poller_.AtRoundEnd(this);
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
  if (!CanSend(spare_credits)) return nullptr;
  return BeginAnyFrame(bytes);
}

uint8_t* Connection::BeginAnyFrame(uint32_t bytes) {
  uint8_t* const frame = send_.BeginFrame(bytes);
  if (__builtin_expect(frame == nullptr, 0)) device_.WaitForSendSlot(this);
  return frame;
}

void Connection::Send(uint32_t bytes, bool signalled) {
  uint8_t* const frame = send_.frame();
  const uint32_t limit = receive_credits_.Advertise();
  std::memcpy(frame + offsetof(FrameHeader, credit_limit), &limit,
              sizeof(limit));
  FrameType type;
  std::memcpy(&type, frame, sizeof(type));
  if (NeedsCredit(type)) send_credits_->Take();
  const absl::Status status = send_.PostFrame(bytes, signalled);
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
  if (receive_credits_.GrantDue()) SendControl(FrameType::kGrant);
}

}  // namespace verbena::transport
