// A connection's end for tests, on any device: a context, one object of each
// kind, and the verbs in short words.

#ifndef VERBENA_TRANSPORT_VERBS_TEST_END_H_
#define VERBENA_TRANSPORT_VERBS_TEST_END_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/verbs/test_queue_pair.h"
#include "transport/verbs/verbs_ops.h"

namespace verbena::transport {

// A GID of a device and where it stands in the device's table.
struct TestGid {
  ibv_gid gid = {};
  uint8_t index = 0;
};

struct TestEndOptions {
  ibv_qp_type type = IBV_QPT_RC;  // May be UC or UD as well.
  uint32_t send_depth = 16;
  uint32_t receive_depth = 16;
  uint32_t entries = 4;
  uint32_t inline_bytes = 64;
  int completions = 64;
  size_t memory_bytes = size_t{64} * 1024;
  bool with_channel = false;
  uint32_t shared_receives = 0;  // More than zero: with a shared receive queue.
  bool signal_all = false;
  // The rights that the memory and the queue pair give.
  int access =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  uint8_t port = 1;
  ibv_mtu mtu = IBV_MTU_1024;
  uint8_t rnr_retry = 7;       // Retries without end.
  uint8_t min_rnr_timer = 12;  // 0.64 ms.
  uint8_t timeout = 14;        // 67 ms.
  uint8_t retry_count = 7;
  uint8_t reads_max = 4;       // READs that it has outstanding.
  uint8_t reads_accepted = 4;  // READs that it lets its peer have outstanding.
  // Whether it has an extended completion queue, and with which fields; the
  // operations of an extended queue pair, 0 for an ordinary one.
  bool extended_completions = false;
  uint64_t fields = 0;
  uint64_t operations = 0;
};

// Creates everything, with the queue pair in RESET. Aborts when a control verb
// fails: a test that expects failure calls the verb itself. What fails without
// a verb, like a wait in vain, fails the running test.
//
// Confined to one thread, except where the verbs allow more.
class TestEnd : public TestQueuePair {
 public:
  // Closes `context` at its end. `gid` is one of that device.
  TestEnd(const VerbsOps& verbs, ibv_context* context, const TestGid& gid,
          const TestEndOptions& options);
  ~TestEnd();

  const VerbsOps verbs;
  const TestEndOptions options;
  ibv_context* const context;
  const TestGid gid;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  // `cq` and `qp` as extended objects; null unless the options ask for them.
  ibv_cq_ex* extended_cq = nullptr;
  ibv_qp_ex* extended_qp = nullptr;
  // The end whose protocol Wait() runs as well. Set by Connect().
  TestEnd* peer = nullptr;
  // The number of a peer that is not in `peer`; 0 if there is none.
  uint32_t peer_number = 0;

  // All that modify_qp needs for a transition, the state included. Without a
  // peer it names its own number as the peer's.
  ibv_qp_attr AttributesFor(ibv_qp_state to) const;
  int MaskFor(ibv_qp_state to) const;
  // Makes the transition. Returns what modify_qp returns.
  int To(ibv_qp_state to);
  // Goes from RESET by INIT, RTR and RTS up to `state`, or to ERR from there.
  void BringTo(ibv_qp_state state);
  ibv_qp_state State() const;
  // Returns the queue pair's capacities, which are at least those asked for.
  ibv_qp_cap Granted() const;

  // The next completion. When none comes the test fails, and the status is
  // IBV_WC_GENERAL_ERR. Runs the protocol of `other` meanwhile, or of `peer`.
  ibv_wc Wait(TestEnd* other = nullptr);
  // The next completion, which must be that of `wr_id`.
  ibv_wc_status Outcome(uint64_t wr_id);
  // Whether no completion comes for some milliseconds, in which the peer runs
  // too.
  bool StaysQuiet();
  // Whether none comes while both poll so many times.
  bool StaysQuiet(TestEnd* other, int passes = 1000);

  // The next asynchronous event, acknowledged; -1 when none comes in time.
  int NextAsyncEvent(int wait_ms = 5000);
  // Whether no asynchronous event comes for some milliseconds.
  bool HasNoAsyncEvent();
  // Whether the channel becomes readable. If that is not expected, it waits
  // only for some milliseconds.
  bool ChannelIsReadable(bool expected);
  // Awaits the next event of the channel, which must be one of the completion
  // queue, and acknowledges it.
  void TakeCompletionEvent();

  // For datagrams: the way to a GID, a handle on it that lives as long as this
  // end, and a message to another end.
  ibv_ah_attr Path(const ibv_gid& to) const;
  ibv_ah* Handle(const ibv_gid& to);
  int SendTo(const TestEnd& to, uint64_t wr_id, size_t offset, size_t length,
             unsigned int flags = IBV_SEND_SIGNALED);

 private:
  void CreateCompletionQueue();
  void CreateQueuePair();

  std::vector<ibv_ah*> handles_;
};

// Connects two ends to each other, by queue pair number and GID.
void Connect(TestEnd& a, TestEnd& b);

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_VERBS_TEST_END_H_
