// The receives that a connection holds for its peer's credits.

#ifndef VERBENA_TRANSPORT_SESSION_CREDIT_BALANCE_H_
#define VERBENA_TRANSPORT_SESSION_CREDIT_BALANCE_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/time/time.h"
#include "transport/base/limits.h"
#include "transport/session/frame_sender.h"
#include "transport/wire/frame.h"

namespace verbena::transport {

// Lets the peer have more credits as it needs them, tells it of them, and takes
// back those that nobody uses. Each function gets the same `sender`, which is a
// FrameSender: a template only so that tests/model can run these rules without
// a device. Poller thread only.
template <typename Sender>
class CreditRules {
 public:
  // The peer has sent a REQUEST or a RESPONSE.
  void NoteServed() { served_ = true; }
  // The peer waited for credits: lets it have twice as many.
  void GrowWindow(Sender& sender);
  // Tells the peer of its credits, when CreditFlow::GrantDue().
  void SendGrant(Sender& sender);
  // Gives back, and takes back, credits that nobody has used for a while.
  void Tick(Sender& sender, absl::Time now);
  absl::Time NextTick(const Sender& sender) const;
  // The peer gave `count` credits back. False if it did not have them.
  bool TakeReturn(Sender& sender, uint32_t count);
  // The queue pair is gone: gives the receives beyond the idle ones back.
  void Release(Sender& sender) {
    GiveReceivesBack(sender, sender.credit_flow().window() - kIdleCredits);
  }

 private:
  // Unused credits go back after this time.
  static constexpr absl::Duration kIdleTime = absl::Seconds(1);

  void SendReturn(Sender& sender);
  void GiveReceivesBack(Sender& sender, uint32_t count) {
    sender.device().ShrinkReceives(sender.receives(), count);
  }

  bool served_ = false;  // NoteServed() since the last GRANT.
  // Since when no frame has used the credits beyond the idle ones.
  absl::Time idle_since_ = absl::InfiniteFuture();
};

template <typename Sender>
void CreditRules<Sender>::SendGrant(Sender& sender) {
  // Without room the GRANT stays due. The next completion makes room, and
  // FinishRound() comes back here.
  if (!sender.send_queue().HasFrameRoom()) return;
  // A peer that calls while nothing is sent to it would need one GRANT a call.
  if (std::exchange(served_, false) &&
      sender.credit_flow().window() == kIdleCredits) {
    GrowWindow(sender);
    // A device that refuses receives has ended all its connections.
    if (sender.state() > ConnectionState::kOpen) return;
  }
  uint8_t* const out = sender.BeginAnyFrame(sizeof(FrameHeader));
  if (out == nullptr) return;
  const FrameHeader header = FrameSender::PlainHeader(FrameType::kGrant, 0);
  std::memcpy(out, &header, sizeof(header));
  sender.credit_flow().NoteGrant();
  sender.SendAnyFrame(sizeof(header), /*signalled=*/false);
}

// Doubles the window, up to kCredits. The device posts the receives before any
// header grants them.
template <typename Sender>
void CreditRules<Sender>::GrowWindow(Sender& sender) {
  auto& credits = sender.credit_flow();
  const uint32_t window = credits.window();
  credits.GrowWindow(sender.device().GrowReceives(
      sender.receives(), std::min(window, kCredits - window)));
}

template <typename Sender>
void CreditRules<Sender>::Tick(Sender& sender, absl::Time now) {
  if (!sender.usable()) return;
  auto& credits = sender.credit_flow();
  if (credits.TakeActivity()) idle_since_ = now;
  if (now - idle_since_ < kIdleTime || !credits.HoldsIdle()) return;
  // A RETURN that finds no room now is tried again after another kIdleTime.
  idle_since_ = now;
  GiveReceivesBack(sender, credits.ShrinkWindow());
  if (credits.available() > kIdleCredits) SendReturn(sender);
}

template <typename Sender>
absl::Time CreditRules<Sender>::NextTick(const Sender& sender) const {
  return sender.usable() && sender.credit_flow().HoldsIdle()
             ? idle_since_ + kIdleTime
             : absl::InfiniteFuture();
}

template <typename Sender>
bool CreditRules<Sender>::TakeReturn(Sender& sender, uint32_t count) {
  // A peer keeps one credit at least. Release() counts on that being the idle
  // window, whose receives are given back by themselves.
  static_assert(kIdleCredits == 1);
  if (!sender.credit_flow().TakeReturn(count)) return false;
  GiveReceivesBack(sender, count);
  return true;
}

// Gives back all credits but the one that this frame takes. The peer then
// shrinks its window, and with that its receives.
template <typename Sender>
void CreditRules<Sender>::SendReturn(Sender& sender) {
  if (!sender.send_queue().HasFrameRoom()) return;
  uint8_t* const out = sender.BeginAnyFrame(sizeof(ReturnHeader));
  if (out == nullptr) return;
  auto& credits = sender.credit_flow();
  ReturnHeader header = {};
  header.frame = FrameSender::PlainHeader(FrameType::kReturn, 0);
  header.frame.header_bytes = sizeof(header);
  // The frame itself takes the last one; the peer owes that one again.
  header.credits = credits.available() - 1;
  std::memcpy(out, &header, sizeof(header));
  credits.GiveBack(header.credits);
  sender.SendAnyFrame(sizeof(header), /*signalled=*/true);
}

extern template class CreditRules<FrameSender>;
using CreditBalance = CreditRules<FrameSender>;

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SESSION_CREDIT_BALANCE_H_
