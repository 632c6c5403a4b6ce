// The arithmetic of credits.

#ifndef VERBENA_TRANSPORT_CONNECTION_CREDIT_WINDOW_H_
#define VERBENA_TRANSPORT_CONNECTION_CREDIT_WINDOW_H_

#include <cstdint>

namespace verbena::transport {

// Counts the credited frames that this side may still send. Numbers are running
// totals modulo 2^32. No clock, no device, no allocation.
class SendCredits {
 public:
  // The peer takes `initial` frames at first, and never has more receives than
  // that for us at once.
  explicit SendCredits(uint32_t initial) : window_(initial), limit_(initial) {}

  uint32_t available() const { return limit_ - sent_; }

  // REQUIRES: available() > 0.
  void Take() { ++sent_; }

  // What the peer's latest header said. Returns false, and changes nothing, if
  // a correct peer can't have said it: the limit went back, or allows more than
  // its window.
  bool Update(uint32_t limit) {
    if (limit - sent_ > window_ || limit - limit_ > window_) return false;
    limit_ = limit;
    return true;
  }

 private:
  const uint32_t window_;
  uint32_t limit_;     // Frames that we may have sent in all.
  uint32_t sent_ = 0;  // Never beyond limit_.
};

// Counts the credited frames of the peer and what it was told it may send.
class ReceiveCredits {
 public:
  // `window` receives are posted for the peer, and posted again as they are
  // used.
  explicit ReceiveCredits(uint32_t window)
      : window_(window), advertised_(window) {}

  // The peer sent a credited frame. Returns false if it had no credit for it.
  bool Receive() {
    if (received_ == advertised_) return false;
    ++received_;
    return true;
  }

  // The limit for the next header; counts as told.
  uint32_t Advertise() {
    advertised_ = received_ + window_;
    return advertised_;
  }

  // The peer knows of so few credits that it should be told although there is
  // nothing to send.
  bool GrantDue() const {
    return received_ + window_ - advertised_ >= window_ / 2;
  }

 private:
  const uint32_t window_;
  uint32_t received_ = 0;
  uint32_t advertised_;  // What the peer was told last.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_CREDIT_WINDOW_H_
