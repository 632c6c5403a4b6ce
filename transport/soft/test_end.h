// An end of a connection for tests of the software device.

#ifndef VERBENA_TRANSPORT_SOFT_TEST_END_H_
#define VERBENA_TRANSPORT_SOFT_TEST_END_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "transport/verbs/test_end.h"

namespace verbena::soft {

// Options with short timers, no retries, and room for what the tests need.
struct TestEndOptions : transport::TestEndOptions {
  TestEndOptions();
};

class TestEnd : public transport::TestEnd {
 public:
  explicit TestEnd(const TestEndOptions& options = {});

  // Goes from INIT to RTR, for the peer of this number. Returns what modify_qp
  // returns.
  int ToReadyToReceive(uint32_t number);
  // Goes from RESET or INIT up to RTS.
  void Connect(uint32_t number);

  // Rearm() loads a path by `port` of the own host as the alternate one, with a
  // timeout of about 67 ms unless it says otherwise, and asks to be armed. Both
  // return what modify_qp returns.
  int Rearm(uint8_t port, uint8_t timeout = 14);
  int SetMigrationState(ibv_mig_state state);
  ibv_qp_attr QueryPaths() const;
  ibv_mig_state MigrationState() const { return QueryPaths().path_mig_state; }

 private:
  TestEnd(ibv_context* context, const TestEndOptions& options);
};

// A TestEnd for datagrams that is ready to send.
class DatagramTestEnd : public TestEnd {
 public:
  explicit DatagramTestEnd(TestEndOptions options = {});
};

// Connects two ends of this process to each other by queue pair number. Neither
// becomes the `peer` of the other, so that a test says whose protocol runs.
void ConnectManually(TestEnd& a, TestEnd& b);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_TEST_END_H_
