// Registered memory for frames that are too long to be sent inline.

#ifndef VERBENA_TRANSPORT_DEVICE_SEND_BUFFERS_H_
#define VERBENA_TRANSPORT_DEVICE_SEND_BUFFERS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/device/buffer_slabs.h"
#include "transport/verbs/protection_domain.h"

namespace verbena::transport {

// Buffers of kBufferBytes that all connections of a poller's device share. One
// is held from the moment a frame is begun until a completion says that it is
// done. Most frames ask for none, because a completion wakes a side that
// sleeps: so idle connections may hold those of their last few frames, but only
// while buffers are not scarce, which is half of all there may be, for all
// connections together. Memory grows with the largest number that was held at
// once, up to a bound; beyond it connections wait for one another.
//
// A connection has a share: it takes a further buffer only while it holds fewer
// than are left for all. So a few whose peers receive nothing cannot take them
// all, and a connection that holds none finds one. Beyond the share each may
// take one from a reserve, whose frame must bring back all that it holds.
//
// Not thread-safe: confined to the poller's thread. The protection domain must
// outlive it.
class SendBuffers {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  // Buffers that are registered together.
  static constexpr uint32_t kSlabBuffers = BufferSlabs::kSlabBuffers;

  // Holds nothing; for assignment.
  SendBuffers() = default;

  // Holds at most `shared` buffers, of which each connection has a share, and
  // `reserved` beyond them; both rounded up to whole slabs. Registers the first
  // slab.
  static absl::StatusOr<SendBuffers> Create(const ProtectionDomain& pd,
                                            uint32_t shared, uint32_t reserved);

  // Whether Acquire() would give one.
  bool available() const { return slabs_.free_count() > 0 || CanGrow(); }

  // Whether a connection that holds `own` buffers may take `count` more of what
  // is shared.
  bool InShare(uint32_t own, uint32_t count) const {
    return own + held() + size_t{2} * count <=
           size_t{shared_slabs_} * kSlabBuffers + 1;
  }

  size_t held() const {
    return slabs_.slab_count() * kSlabBuffers - slabs_.free_count();
  }

  // Whether what is sent from one must say when it is done: more than half of
  // what is shared are held, or all that there are, and no more can be
  // registered. Else idle connections might hold what others wait for. May
  // register memory.
  bool Scarce() {
    if (slabs_.free_count() == 0 && !Grow()) return true;
    return 2 * held() > size_t{shared_slabs_} * kSlabBuffers;
  }

  // Whether so many can be acquired one after another. Registers memory as
  // Acquire() does.
  bool Prepare(uint32_t count) {
    while (slabs_.free_count() < count) {
      if (!Grow()) return false;
    }
    return true;
  }

  // kNone if all are held. Registers memory when there have never been so many.
  uint32_t Acquire() {
    return slabs_.free_count() == 0 && !Grow() ? kNone : slabs_.Take();
  }
  void Release(uint32_t index) { slabs_.Return(index); }

  uint8_t* At(uint32_t index) const { return slabs_.At(index); }
  uint32_t lkey(uint32_t index) const { return slabs_.lkey(index); }

  size_t registered_bytes() const { return slabs_.registered_bytes(); }

 private:
  SendBuffers(const ProtectionDomain& pd, uint32_t shared, uint32_t reserved);
  bool CanGrow() const { return slabs_.slab_count() < max_slabs_; }
  bool Grow();

  BufferSlabs slabs_;
  uint32_t shared_slabs_ = 0;
  uint32_t max_slabs_ = 0;  // With the reserve.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_DEVICE_SEND_BUFFERS_H_
