// A bell by which a thread that waits is woken directly, by a thread of this
// process or of another.

#ifndef VERBENA_TRANSPORT_SOFT_BASE_WAITER_BELL_H_
#define VERBENA_TRANSPORT_SOFT_BASE_WAITER_BELL_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "transport/base/unique_fd.h"

namespace verbena::soft {

// A socket whose descriptor is readable while it holds a ring that nobody has
// taken. Ringing takes one system call and taking a ring another. No thread
// stands in between.
//
// Any process of the host that knows the name of a bell can ring it. So a ring
// is a hint: the thread that takes it looks whether there is something to do. A
// bell holds a few rings (net.unix.max_dgram_qlen) and refuses more.
//
// Thread-safe.
class WaiterBell {
 public:
  // Random, so that nobody can take a name before its owner does. Zero stands
  // for no bell.
  struct Name {
    uint64_t high = 0;
    uint64_t low = 0;
  };
  // The contents of a ring. `number` says which of the things that the waiter
  // waits for has come. `secret` proves that the ringer may know of it. Both
  // are zero when the waiter's own process rings.
  struct Ring {
    uint64_t secret = 0;
    uint64_t number = 0;
  };

  // Null, with errno, when the process is out of descriptors.
  static std::unique_ptr<WaiterBell> Create();

  int fd() const { return socket_.get(); }
  const Name& name() const { return name_; }

  // Rings the bell of that name. Never blocks. False when that did not work:
  // nobody has that name, or it holds all the rings that it can.
  static bool RingByName(const Name& name, const Ring& ring);
  bool RingOwn() const;

  // Takes the oldest ring. If there is none, it waits for one if fd() is
  // blocking, and otherwise returns false with errno EAGAIN. A signal ends
  // the wait: false with errno EINTR. A datagram that is no ring counts as one
  // with the number kNobody, because it took room as well.
  static constexpr uint64_t kNobody = ~uint64_t{0};
  bool Take(Ring& ring) const;
  // As Take(), but never waits.
  bool TryTake(Ring& ring) const;

 private:
  bool Take(Ring& ring, int flags) const;

  WaiterBell(base::UniqueFd socket, const Name& name)
      : socket_(std::move(socket)), name_(name) {}

  const base::UniqueFd socket_;
  const Name name_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_BASE_WAITER_BELL_H_
