// One end of a connection, for tests of the software device: a context and one
// of everything, and the verbs in short words.

#ifndef VERBENA_TRANSPORT_SOFT_TEST_END_H_
#define VERBENA_TRANSPORT_SOFT_TEST_END_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "transport/verbs/test_queue_pair.h"
#include "transport/verbs/verbs_ops.h"

namespace verbena::soft {

struct TestEndOptions {
  ibv_qp_type type = IBV_QPT_RC;  // Or UC.
  uint32_t send_depth = 16;
  uint32_t receive_depth = 16;
  uint32_t entries = 4;
  uint32_t inline_bytes = 256;
  int completions = 256;
  size_t memory_bytes = 64 * 1024;
  bool with_channel = false;
  uint32_t shared_receives = 0;  // More than zero: with a shared receive queue.
  bool signal_all = false;
  int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
               IBV_ACCESS_REMOTE_READ;  // Of the memory and of the queue pair.
  uint8_t rnr_retry = 7;
  uint8_t min_rnr_timer = 1;  // 10 us.
  uint8_t timeout = 8;        // About 1 ms.
  uint8_t retry_count = 0;
  uint8_t reads_max = 16;       // That it has outstanding.
  uint8_t reads_accepted = 16;  // That it lets the peer have outstanding.
  uint8_t port = 1;
};

// Creates everything and, with Connect, brings it up to RTS. Aborts when a
// control verb fails: a test that expects failure calls the verb itself.
//
// One thread, except where the verbs allow more.
class TestEnd : public transport::TestQueuePair {
 public:
  explicit TestEnd(const TestEndOptions& options = {});
  ~TestEnd();

  const transport::VerbsOps verbs;
  const TestEndOptions options;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;

  // The transitions, one by one. Each returns what modify_qp returns.
  int ToInit();
  int ToReadyToReceive(uint32_t peer_number);
  int ToReadyToSend();
  int ToDrained(int more_attributes = 0);
  int ToError();
  int ToReset();
  // All three, or the two that are left when it is in INIT.
  void Connect(uint32_t peer_number);

  // Polls until there is a completion, also `other`, which may have to make
  // progress meanwhile. Aborts after ten seconds.
  ibv_wc Wait(TestEnd* other = nullptr);

  // The asynchronous event that waits, or comes within `wait_ms`, acknowledged;
  // -1 if there is none.
  int NextAsyncEvent(int wait_ms = 0);

  ibv_qp_state State() const;
  // Polls both ends `passes` times; true if there was no completion at this
  // one.
  bool StaysQuiet(TestEnd* other, int passes = 1000);
};

// Connects two ends of this process to each other by queue pair number.
void ConnectByHand(TestEnd& a, TestEnd& b);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_TEST_END_H_
