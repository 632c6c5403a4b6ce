// One end that sends and receives datagrams, for tests.

#ifndef VERBENA_TRANSPORT_SOFT_DATAGRAM_TEST_END_H_
#define VERBENA_TRANSPORT_SOFT_DATAGRAM_TEST_END_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/soft/test_end.h"

namespace verbena::soft {

inline constexpr uint32_t kTestQkey = 0x11111111;

// A TestEnd whose queue pair is one of datagrams. Aborts when a control verb
// fails: a test that expects failure calls the verb itself.
class DatagramTestEnd : public TestEnd {
 public:
  explicit DatagramTestEnd(const TestEndOptions& options = {});
  ~DatagramTestEnd();

  // The transitions, one by one. Each returns what modify_qp returns.
  int ToInit(uint32_t qkey = kTestQkey);
  int ToReadyToReceive();
  int ToReadyToSend();
  // All three.
  void Start(uint32_t qkey = kTestQkey);

  // The GID that others reach this end at: entry 0 of the table.
  ibv_gid Gid() const;
  // A path to `gid` from entry `index`.
  static ibv_ah_attr Path(const ibv_gid& gid, uint8_t index = 0);
  // An address handle of that path, which lives as long as this end.
  ibv_ah* To(const ibv_gid& gid);

  // A request to send memory [offset, offset + length) to `number`.
  struct Datagram {
    ibv_ah* ah = nullptr;
    uint32_t number = 0;
    uint64_t wr_id = 0;
    size_t offset = 0;
    size_t length = 0;
    uint32_t qkey = kTestQkey;
    unsigned int flags = IBV_SEND_SIGNALED;
  };
  int SendDatagram(const Datagram& datagram);
  // To `peer`, which may be of this process or another end with this GID.
  int SendTo(const DatagramTestEnd& peer, uint64_t wr_id, size_t offset,
             size_t length, unsigned int flags = IBV_SEND_SIGNALED);

 private:
  std::vector<ibv_ah*> handles_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DATAGRAM_TEST_END_H_
