// One end that sends and receives datagrams, on any device.

#ifndef VERBENA_TESTS_CONFORMANCE_DATAGRAM_END_H_
#define VERBENA_TESTS_CONFORMANCE_DATAGRAM_END_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/conformance/end.h"

namespace verbena::conformance {

// In front of every message that is received.
inline constexpr size_t kGrhBytes = sizeof(ibv_grh);

// An End whose queue pair is one of datagrams and ready to send. Aborts when a
// control verb fails: a test that expects failure calls the verb itself.
class DatagramEnd : public End {
 public:
  explicit DatagramEnd(EndOptions options = {});
  ~DatagramEnd();

  // The way to a GID, and a handle on it that lives as long as this end.
  ibv_ah_attr Path(const ibv_gid& to) const;
  ibv_ah* Handle(const ibv_gid& to);

  // A datagram to `to`.
  int SendTo(const DatagramEnd& to, uint64_t wr_id, size_t offset,
             size_t length);

 private:
  std::vector<ibv_ah*> handles_;
};

}  // namespace verbena::conformance

#endif  // VERBENA_TESTS_CONFORMANCE_DATAGRAM_END_H_
