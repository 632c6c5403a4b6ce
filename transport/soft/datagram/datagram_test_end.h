// One end that sends and receives datagrams, for tests.

#ifndef VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_TEST_END_H_
#define VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_TEST_END_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/soft/test_end.h"

namespace verbena::soft {

using transport::kTestQkey;

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

  // To `peer`, which may be of this process or another end with this GID.
  int SendTo(const DatagramTestEnd& peer, uint64_t wr_id, size_t offset,
             size_t length, unsigned int flags = IBV_SEND_SIGNALED);

 private:
  std::vector<ibv_ah*> handles_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_TEST_END_H_
