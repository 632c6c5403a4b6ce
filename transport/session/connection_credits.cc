// Connection: credits, and the receives behind them.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/time/time.h"
#include "transport/base/limits.h"
#include "transport/device/poller_device.h"
#include "transport/session/connection.h"
#include "transport/wire/frame.h"

namespace verbena::transport {

void Connection::SendGrant() {
  if (!send_.HasFrameRoom()) return;
  // A peer that calls while nothing is sent to it would need one GRANT a call.
  if (std::exchange(served_, false) && credits_.window() == kIdleCredits) {
    GrowWindow();
    // A device that refuses receives has ended all its connections.
    if (state_ > ConnectionState::kOpen) return;
  }
  uint8_t* const out = BeginAnyFrame(sizeof(FrameHeader));
  if (out == nullptr) return;
  const FrameHeader header = PlainHeader(FrameType::kGrant, 0);
  std::memcpy(out, &header, sizeof(header));
  credits_.NoteGrant();
  SendFrame(sizeof(header), /*signalled=*/false);
}

void Connection::GrowWindow() {
  const uint32_t window = credits_.window();
  credits_.GrowWindow(
      device_.GrowReceives(receives(), std::min(window, kCredits - window)));
}

void Connection::BalanceCredits(absl::Time now) {
  if (!usable()) return;
  if (credits_.TakeActivity()) credits_idle_since_ = now;
  if (now - credits_idle_since_ < kCreditsIdle || !credits_.HoldsIdle()) return;
  credits_idle_since_ = now;
  device_.ShrinkReceives(receives(), credits_.ShrinkWindow());
  if (credits_.available() > kIdleCredits) SendReturn();
}

void Connection::SendReturn() {
  if (!HasCredit()) return;
  uint8_t* const out = BeginAnyFrame(sizeof(ReturnHeader));
  if (out == nullptr) return;
  ReturnHeader header = {};
  header.frame = PlainHeader(FrameType::kReturn, 0);
  header.frame.header_bytes = sizeof(header);
  // The frame itself takes the last one; the peer owes that one again.
  header.credits = credits_.available() - 1;
  std::memcpy(out, &header, sizeof(header));
  credits_.GiveBack(header.credits);
  SendFrame(sizeof(header), /*signalled=*/true);
}

}  // namespace verbena::transport
