// Who drives a poller, while the thread that does may be held up elsewhere.

#ifndef VERBENA_TRANSPORT_CONNECTION_DRIVER_SEAT_H_
#define VERBENA_TRANSPORT_CONNECTION_DRIVER_SEAT_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace verbena::transport {

// One thread has the seat, the *driver*, and with it everything that is
// confined to the poller. For an *errand* it gets up; if it stays away too
// long, another thread takes the seat, and the first one finds it taken when it
// comes back. What a driver did before it got up happens before what the next
// one does.
class DriverSeat {
 public:
  // Counts what happened to the seat: odd while the driver is away.
  using Moment = uint64_t;

  // By the driver, which gets up. Returns what SitDown() needs.
  Moment GetUp() {
    const Moment away = moment_.load(std::memory_order_relaxed) + 1;
    moment_.store(away, std::memory_order_release);
    return away;
  }
  // By the thread that got up: returns whether it is the driver again. Else
  // another one has the seat, and this thread may touch nothing of its.
  [[nodiscard]] bool SitDown(Moment away) {
    return moment_.compare_exchange_strong(
        away, away + 1, std::memory_order_acquire, std::memory_order_relaxed);
  }

  // For any other thread. When two looks see the same moment with the driver
  // away, it has been away all the time between them.
  // What the driver did before that moment happens before what follows.
  Moment Look() const { return moment_.load(std::memory_order_acquire); }
  static bool IsAway(Moment moment) { return moment % 2 == 1; }
  // Makes this thread the driver if the errand of that moment goes on.
  [[nodiscard]] bool Take(Moment away) { return SitDown(away); }

 private:
  std::atomic<Moment> moment_{0};
};

// What a thread that looks at the seat now and then knows of one errand. Looks
// come when they come: after a late one the next may follow at once.
class Absence {
 public:
  // No errand is long that was not seen for so much time.
  static constexpr absl::Duration kLong = absl::Microseconds(500);

  // Whether the driver has been away for long at `now`, when the seat was found
  // at `moment`.
  bool IsLong(DriverSeat::Moment moment, absl::Time now) {
    if (moment != moment_ || now < since_) {
      moment_ = moment;
      since_ = now;
    }
    return DriverSeat::IsAway(moment) && now - since_ >= kLong;
  }

 private:
  DriverSeat::Moment moment_ = 0;
  absl::Time since_ = absl::InfinitePast();  // When that was first seen.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_DRIVER_SEAT_H_
