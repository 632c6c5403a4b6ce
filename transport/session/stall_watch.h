// Notices that something waits for a peer and nothing moves.

#ifndef VERBENA_TRANSPORT_SESSION_STALL_WATCH_H_
#define VERBENA_TRANSPORT_SESSION_STALL_WATCH_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"

namespace verbena::transport {

// Watches over things that wait in line: the first of them must move on within
// a limit, and then the next one has as long. Where the line's end is known,
// all that stood in it must move on within the limit, so that a peer that takes
// one thing now and then does not keep the others. Looks at it only when it is
// ticked, so what waits costs nothing when it begins or ends.
class StallWatch {
 public:
  // The numbers of what waits, which grow: from `first` to before `end`.
  struct Line {
    uint64_t first = 0;
    uint64_t end = 0;
  };

  explicit StallWatch(absl::Duration limit) : limit_(limit) {}

  // `first` is a number for what waits at the front of the line, which nothing
  // else there ever has; none if nothing waits. Returns whether it has been
  // there for as long as it may.
  bool Tick(absl::Time now, std::optional<uint64_t> first) {
    if (first != first_) {
      first_ = first;
      since_ = now;
    }
    return first.has_value() && now - since_ >= limit_;
  }

  // Returns whether something has been in the line for as long as it may.
  bool Tick(absl::Time now, std::optional<Line> line) {
    // The end of the line as it was, until all of that has moved on.
    if (!line.has_value()) return Tick(now, std::optional<uint64_t>());
    const bool moved = !first_.has_value() || line->first >= *first_;
    return Tick(now, std::optional(moved ? line->end : *first_));
  }

  // When Tick() returns true at the earliest, if nothing moves.
  absl::Time NextTick() const {
    return first_.has_value() ? since_ + limit_ : absl::InfiniteFuture();
  }

 private:
  const absl::Duration limit_;
  std::optional<uint64_t> first_;  // Or the end of the line.
  absl::Time since_;               // The tick that saw it there first.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SESSION_STALL_WATCH_H_
