#include "transport/session/credit_balance.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/base/limits.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

// Unused credits go back after this time.
constexpr absl::Duration kIdleTime = absl::Seconds(1);

}  // namespace

void CreditBalance::SendGrant() {
  // Without room the GRANT stays due. The next completion makes room, and
  // FinishRound() comes back here.
  if (!sender_.send_queue().HasFrameRoom()) return;
  // A peer that calls while nothing is sent to it would need one GRANT a call.
  if (std::exchange(served_, false) && credits_.window() == kIdleCredits) {
    GrowWindow();
    // A device that refuses receives has ended all its connections.
    if (sender_.state() > ConnectionState::kOpen) return;
  }
  uint8_t* const out = sender_.BeginAnyFrame(sizeof(FrameHeader));
  if (out == nullptr) return;
  const FrameHeader header = FrameSender::PlainHeader(FrameType::kGrant, 0);
  std::memcpy(out, &header, sizeof(header));
  credits_.NoteGrant();
  sender_.SendAnyFrame(sizeof(header), /*signalled=*/false);
}

// Doubles the window, up to kCredits. The device posts the receives before any
// header grants them.
void CreditBalance::GrowWindow() {
  const uint32_t window = credits_.window();
  credits_.GrowWindow(sender_.device().GrowReceives(
      sender_.receives(), std::min(window, kCredits - window)));
}

void CreditBalance::Tick(absl::Time now) {
  if (!sender_.usable()) return;
  if (credits_.TakeActivity()) idle_since_ = now;
  if (now - idle_since_ < kIdleTime || !credits_.HoldsIdle()) return;
  // A RETURN that finds no room now is tried again after another kIdleTime.
  idle_since_ = now;
  GiveReceivesBack(credits_.ShrinkWindow());
  if (credits_.available() > kIdleCredits) SendReturn();
}

absl::Time CreditBalance::NextTick() const {
  return sender_.usable() && credits_.HoldsIdle() ? idle_since_ + kIdleTime
                                                  : absl::InfiniteFuture();
}

bool CreditBalance::TakeReturn(uint32_t count) {
  // A peer keeps one credit at least. Release() counts on that being the idle
  // window, whose receives are given back by themselves.
  static_assert(kIdleCredits == 1);
  if (!credits_.TakeReturn(count)) return false;
  GiveReceivesBack(count);
  return true;
}

// Gives back all credits but the one that this frame takes. The peer then
// shrinks its window, and with that its receives.
void CreditBalance::SendReturn() {
  if (!sender_.send_queue().HasFrameRoom()) return;
  uint8_t* const out = sender_.BeginAnyFrame(sizeof(ReturnHeader));
  if (out == nullptr) return;
  ReturnHeader header = {};
  header.frame = FrameSender::PlainHeader(FrameType::kReturn, 0);
  header.frame.header_bytes = sizeof(header);
  // The frame itself takes the last one; the peer owes that one again.
  header.credits = credits_.available() - 1;
  std::memcpy(out, &header, sizeof(header));
  credits_.GiveBack(header.credits);
  sender_.SendAnyFrame(sizeof(header), /*signalled=*/true);
}

}  // namespace verbena::transport
