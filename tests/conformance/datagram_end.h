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

  // A request to send memory [offset, offset + length) to `number`.
  struct Datagram {
    ibv_ah* ah = nullptr;
    uint32_t number = 0;
    uint64_t wr_id = 0;
    size_t offset = 0;
    size_t length = 0;
    uint32_t qkey = kQkey;
    unsigned int flags = IBV_SEND_SIGNALED;
  };
  int SendDatagram(const Datagram& datagram);
  int SendTo(const DatagramEnd& to, uint64_t wr_id, size_t offset,
             size_t length);

 private:
  std::vector<ibv_ah*> handles_;
};

}  // namespace verbena::conformance

#endif  // VERBENA_TESTS_CONFORMANCE_DATAGRAM_END_H_
