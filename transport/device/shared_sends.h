// The room for sends that the queues of a device share.

#ifndef VERBENA_TRANSPORT_DEVICE_SHARED_SENDS_H_
#define VERBENA_TRANSPORT_DEVICE_SHARED_SENDS_H_

#include <cstdint>

namespace verbena::transport {

// The work requests that the connections of a device may have under way beyond
// kOwnSends each. Not thread-safe.
class SharedSends {
 public:
  explicit SharedSends(uint32_t count) : left_(count) {}

  bool available(uint32_t count = 1) const { return left_ >= count; }
  // REQUIRES: available().
  void Take() { --left_; }
  void Release() { ++left_; }

 private:
  uint32_t left_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_DEVICE_SHARED_SENDS_H_
