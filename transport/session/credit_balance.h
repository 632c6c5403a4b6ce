// The receives that a connection holds for its peer's credits.

#ifndef VERBENA_TRANSPORT_SESSION_CREDIT_BALANCE_H_
#define VERBENA_TRANSPORT_SESSION_CREDIT_BALANCE_H_

#include <cstdint>

#include "absl/time/time.h"
#include "transport/session/frame_sender.h"

namespace verbena::transport {

// Lets the peer have more credits as it needs them, tells it of them, and takes
// back those that nobody uses. Poller thread only.
class CreditBalance {
 public:
  explicit CreditBalance(FrameSender& sender)
      : sender_(sender), credits_(sender.credit_flow()) {}
  CreditBalance(const CreditBalance&) = delete;
  CreditBalance& operator=(const CreditBalance&) = delete;

  // The peer has sent a REQUEST or a RESPONSE.
  void NoteServed() { served_ = true; }
  // The peer waited for credits: lets it have twice as many.
  void GrowWindow();
  // Tells the peer of its credits, when CreditFlow::GrantDue().
  void SendGrant();
  // Gives back, and takes back, credits that nobody has used for a while.
  void Tick(absl::Time now);
  absl::Time NextTick() const;
  // The peer gave `count` credits back. False if it did not have them.
  bool TakeReturn(uint32_t count);
  // The queue pair is gone: gives the receives beyond the idle ones back.
  void Release() { GiveReceivesBack(credits_.window() - kIdleCredits); }

 private:
  void SendReturn();
  void GiveReceivesBack(uint32_t count) {
    sender_.device().ShrinkReceives(sender_.receives(), count);
  }

  FrameSender& sender_;
  CreditFlow& credits_;
  bool served_ = false;  // NoteServed() since the last GRANT.
  // Since when no frame has used the credits beyond the idle ones.
  absl::Time idle_since_ = absl::InfiniteFuture();
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SESSION_CREDIT_BALANCE_H_
