// Notices a peer that has fallen silent.

#ifndef VERBENA_TRANSPORT_SESSION_KEEPALIVE_H_
#define VERBENA_TRANSPORT_SESSION_KEEPALIVE_H_

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/time/time.h"

namespace verbena::transport {

// Tells when a PING is due, and when the peer must be dead because it did not
// answer one. Reads no clock: a frame that came is only noted, and counts as
// heard at the next Tick().
//
// Nobody waits for a peer on an idle connection, and there may be thousands of
// those. So there each PING that is answered, and followed by no call that is
// open at a tick, is followed by twice as long a silence, up to kLongestSilence
// times the first one; and those that are due almost at the same time are sent
// together.
class Keepalive {
 public:
  enum class Verdict { kFine, kPingDue, kDead };
  // The meaning of silence at present. kFine: none. kIdle: the peer may be
  // gone, but nobody waits for it. kSuspicious: somebody may wait in vain.
  enum class Silence { kFine, kIdle, kSuspicious };
  static constexpr int kLongestSilence = 64;

  // A PING after `time` of silence; dead after `timeout` more.
  Keepalive(absl::Duration time, absl::Duration timeout, absl::Time now)
      : time_(time), timeout_(timeout), silence_(time), last_heard_(now) {}

  // A frame has come.
  void NoteFrame() { heard_ = true; }
  // The connection stands: silence counts from now on.
  void Restart(absl::Time now) { last_heard_ = now; }

  Verdict Tick(absl::Time now, Silence silence) {
    const bool idle = silence == Silence::kIdle;
    if (std::exchange(heard_, false)) {
      last_heard_ = now;
      const bool answered = ping_sent_.has_value();
      silence_ =
          answered && idle ? std::min(2 * silence_, LongestSilence()) : time_;
      ping_sent_.reset();
    }
    if (silence == Silence::kFine) return Verdict::kFine;
    if (ping_sent_.has_value()) {
      return now - *ping_sent_ >= timeout_ ? Verdict::kDead : Verdict::kFine;
    }
    if (!idle) silence_ = time_;
    if (now - last_heard_ < (idle ? silence_ - silence_ / 8 : silence_)) {
      return Verdict::kFine;
    }
    ping_sent_ = now;
    return Verdict::kPingDue;
  }

  // When Tick() has something to say at the latest, if silence means anything.
  absl::Time NextTick() const {
    return ping_sent_.has_value() ? *ping_sent_ + timeout_
                                  : last_heard_ + silence_;
  }

  absl::Duration SilentFor(absl::Time now) const { return now - last_heard_; }

 private:
  absl::Duration LongestSilence() const { return kLongestSilence * time_; }

  const absl::Duration time_;
  const absl::Duration timeout_;
  absl::Duration silence_;  // After which a PING is due.
  absl::Time last_heard_;
  std::optional<absl::Time> ping_sent_;  // Set while a PONG is awaited.
  bool heard_ = false;                   // Since the last Tick().
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SESSION_KEEPALIVE_H_
