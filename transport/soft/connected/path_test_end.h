// One end of a connection whose path may change, for tests.

#ifndef VERBENA_TRANSPORT_SOFT_CONNECTED_PATH_TEST_END_H_
#define VERBENA_TRANSPORT_SOFT_CONNECTED_PATH_TEST_END_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "transport/soft/test_end.h"

namespace verbena::soft {

class PathTestEnd : public TestEnd {
 public:
  static constexpr uint8_t kAlternateTimeout = 14;  // About 67 ms.

  explicit PathTestEnd(const TestEndOptions& options) : TestEnd(options) {}
  // `timeout` is that of the first path, as modify_qp has it.
  explicit PathTestEnd(uint8_t port, uint8_t timeout = 8,
                       ibv_qp_type type = IBV_QPT_RC,
                       bool with_channel = false);

  // What loads a path by `port` of the own host as the alternate one.
  static ibv_qp_attr Alternate(uint8_t port,
                               uint8_t timeout = kAlternateTimeout);

  // Each returns what modify_qp returns.
  // Loads that path and asks to be armed.
  int Rearm(uint8_t port, uint8_t timeout = kAlternateTimeout);
  int SetMigrationState(ibv_mig_state state);

  ibv_qp_attr Query() const;
  ibv_mig_state MigrationState() const { return Query().path_mig_state; }

  // The next asynchronous event, acknowledged. Waits for it; aborts after ten
  // seconds.
  ibv_async_event WaitForEvent();
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CONNECTED_PATH_TEST_END_H_
