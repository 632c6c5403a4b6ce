// Notices a peer that has fallen silent.

#ifndef VERBENA_TRANSPORT_CONNECTION_KEEPALIVE_H_
#define VERBENA_TRANSPORT_CONNECTION_KEEPALIVE_H_

#include <optional>
#include <utility>

#include "absl/time/time.h"

namespace verbena::transport {

// Tells when a PING is due, and when the peer must be dead because it did not
// answer one. Reads no clock: a frame that came is only noted, and counts as
// heard at the next Tick().
class Keepalive {
 public:
  enum class Verdict { kFine, kPingDue, kDead };

  // A PING after `time` of silence; dead after `timeout` more.
  Keepalive(absl::Duration time, absl::Duration timeout, absl::Time now)
      : time_(time), timeout_(timeout), last_heard_(now) {}

  // A frame has come.
  void NoteFrame() { heard_ = true; }
  // The connection stands: silence counts from now on.
  void Restart(absl::Time now) { last_heard_ = now; }

  // `suspicious`: whether silence means anything at present.
  Verdict Tick(absl::Time now, bool suspicious) {
    if (std::exchange(heard_, false)) {
      last_heard_ = now;
      ping_sent_.reset();
    }
    if (!suspicious) return Verdict::kFine;
    if (ping_sent_.has_value()) {
      return now - *ping_sent_ >= timeout_ ? Verdict::kDead : Verdict::kFine;
    }
    if (now - last_heard_ < time_) return Verdict::kFine;
    ping_sent_ = now;
    return Verdict::kPingDue;
  }

  // When Tick() has something to say at the latest, if silence is suspicious.
  absl::Time NextTick() const {
    return ping_sent_.has_value() ? *ping_sent_ + timeout_
                                  : last_heard_ + time_;
  }

  absl::Duration Silence(absl::Time now) const { return now - last_heard_; }

 private:
  const absl::Duration time_;
  const absl::Duration timeout_;
  absl::Time last_heard_;
  std::optional<absl::Time> ping_sent_;  // Set while a PONG is awaited.
  bool heard_ = false;                   // Since the last Tick().
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_KEEPALIVE_H_
