// The arithmetic of credits. See "Credits" in frame.h.

#ifndef VERBENA_TRANSPORT_SESSION_CREDIT_WINDOW_H_
#define VERBENA_TRANSPORT_SESSION_CREDIT_WINDOW_H_

#include <algorithm>
#include <cstdint>

namespace verbena::transport {

// Counts the credited frames that this side may still send. Numbers are running
// totals modulo 2^32. No clock, no device, no allocation.
class SendCredits {
 public:
  // The peer takes `initial` frames at first, and never allows more than
  // `largest` at once.
  SendCredits(uint32_t initial, uint32_t largest)
      : largest_(std::max(initial, largest)), limit_(initial), peak_(initial) {}

  uint32_t available() const { return limit_ - sent_; }
  uint32_t sent() const { return sent_; }

  // REQUIRES: available() > 0.
  void Take() { ++sent_; }

  // Takes the limit from the peer's latest header. Returns false, and changes
  // nothing, if a correct peer can't have sent it: the limit went back, or
  // allows more than the largest window.
  bool Update(uint32_t limit) {
    if (limit - sent_ > largest_ || limit - limit_ > largest_) return false;
    limit_ = limit;
    peak_ = std::max(peak_, available());
    return true;
  }
  // Whether Update(limit) would bring anything new.
  bool IsNews(uint32_t limit) const { return limit != limit_; }

  // The peak of available(), divided by `divisor`.
  uint32_t Share(uint32_t divisor) const { return peak_ / divisor; }

  // Gives `count` back to the peer, for ever. REQUIRES: there are so many.
  void GiveBack(uint32_t count) {
    sent_ += count;
    peak_ = available();
  }

 private:
  uint32_t largest_;   // Most frames that the peer ever allows at once.
  uint32_t limit_;     // Frames that we may have sent in all.
  uint32_t sent_ = 0;  // Never beyond limit_. Those given back count.
  uint32_t peak_;  // The most that were available since the last GiveBack().
};

// Counts the credited frames of the peer and what it was told it may send.
// `window` receives are reserved for it at any time.
class ReceiveCredits {
 public:
  explicit ReceiveCredits(uint32_t window)
      : window_(window), advertised_(window) {}

  uint32_t window() const { return window_; }
  uint32_t received() const { return received_; }
  // Frames that the peer may send on what it was told.
  uint32_t outstanding() const { return advertised_ - received_; }

  // The peer sent a credited frame. Returns false if it had no credit for it.
  bool Receive() {
    if (received_ == advertised_) return false;
    ++received_;
    return true;
  }

  // The peer gave `count` credits back: the window shrinks by so many. Returns
  // false if it did not have them.
  bool Return(uint32_t count) {
    if (count > outstanding() || count >= window_) return false;
    received_ += count;
    window_ -= count;
    return true;
  }

  // Notes that `count` more receives have been reserved.
  void Grow(uint32_t count) { window_ += count; }

  // Shrinks the window to what the peer was told, but not below `least`.
  // Returns by how much.
  uint32_t ShrinkToOutstanding(uint32_t least) {
    const uint32_t before = window_;
    window_ = std::min(window_, std::max(outstanding(), least));
    return before - window_;
  }

  // The limit for the next header; counts as told.
  uint32_t Advertise() {
    advertised_ = received_ + window_;
    return advertised_;
  }

  // The peer knows of so few credits that it should be told although there is
  // nothing to send: of half a window, or of none if the window is tiny.
  bool GrantDue() const {
    const uint32_t owed = window_ - outstanding();
    return owed >= (window_ < 4 ? window_ : window_ / 2);
  }

 private:
  uint32_t window_;
  uint32_t received_ = 0;  // Those given back count.
  uint32_t advertised_;    // What the peer was told last.
};

// Sees to it, at both ends, that there is never more than one GRANT under way
// each way: a side that sent one sends the next only when a header of the peer
// has said that the last one was read, by one bit that changes with each.
class GrantTurns {
 public:
  // Whether this side may send a GRANT.
  bool may_send() const { return sent_ == acknowledged_; }
  void Sent() { sent_ = !sent_; }

  // The bit in a header of the peer. Returns false if it can't be: it says that
  // a GRANT was read that was not sent.
  bool Acknowledge(bool bit) {
    // While one is under way both answers are good, else only the last.
    if (bit != sent_ && bit != acknowledged_) return false;
    acknowledged_ = bit;
    return true;
  }

  // A GRANT of the peer came. Returns false if it was not its turn.
  bool Receive() {
    if (unsaid_) return false;
    unsaid_ = true;
    read_ = !read_;
    return true;
  }

  // The bit for the next header; counts as said.
  bool Say() {
    unsaid_ = false;
    return read_;
  }

 private:
  bool sent_ = false;          // Parity of the GRANTs sent.
  bool acknowledged_ = false;  // The parity the peer said last.
  bool read_ = false;          // Parity of the GRANTs read.
  bool unsaid_ = false;        // The peer does not know of the latest.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SESSION_CREDIT_WINDOW_H_
