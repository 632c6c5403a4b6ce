// One end of a connection and the verbs in short words, on any device.

#ifndef VERBENA_TESTS_CONFORMANCE_END_H_
#define VERBENA_TESTS_CONFORMANCE_END_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "tests/conformance/device.h"
#include "transport/verbs/test_queue_pair.h"

namespace verbena::conformance {

inline constexpr int kAllAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

using transport::kTestQkey;

struct EndOptions {
  ibv_qp_type type = IBV_QPT_RC;  // Or UC, or UD.
  uint32_t send_depth = 16;
  uint32_t receive_depth = 16;
  uint32_t entries = 4;
  uint32_t inline_bytes = 64;
  int completions = 64;
  size_t memory_bytes = 64 * 1024;
  bool with_channel = false;
  uint32_t shared_receives = 0;  // More than zero: with a shared receive queue.
  bool signal_all = false;
  int access = kAllAccess;  // Of the memory and of the queue pair.
  ibv_mtu mtu = IBV_MTU_1024;
  uint8_t rnr_retry = 7;       // Without end.
  uint8_t min_rnr_timer = 12;  // 0.64 ms.
  uint8_t timeout = 14;        // 67 ms.
  uint8_t retry_count = 7;
  uint8_t reads_max = 4;
  uint8_t reads_accepted = 4;
  // With an extended completion queue of these fields, and an extended queue
  // pair of these operations.
  bool extended_completions = false;
  uint64_t fields = 0;
  uint64_t operations = 0;
};

// With a region and a queue pair that allow atomics too.
EndOptions WithAtomics();
// With memory for the longest messages of the suite.
EndOptions Large();

// A context and one of everything, with the queue pair in RESET. Aborts when a
// control verb fails: a test that expects failure calls the verb itself. For
// one thread.
class End : public transport::TestQueuePair {
 public:
  explicit End(const EndOptions& options = {});
  ~End();

  const EndOptions options;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq_ex* extended_cq = nullptr;  // The same as cq and qp; null unless asked
  ibv_qp_ex* extended_qp = nullptr;  // for.
  Gid gid;
  // Whose protocol Wait() runs as well. Set by Connect().
  End* peer = nullptr;
  // The number of a peer that is not in `peer`; 0 if there is none.
  uint32_t peer_number = 0;

  // All that modify_qp needs for a transition, the state included. The number
  // of the peer is its own unless there is one.
  ibv_qp_attr AttributesFor(ibv_qp_state to) const;
  int MaskFor(ibv_qp_state to) const;
  // The transition; returns what modify_qp returns.
  int To(ibv_qp_state to);
  // From RESET through INIT, RTR and RTS up to `state`, or to ERR from there.
  void BringTo(ibv_qp_state state);
  ibv_qp_state State() const;
  // What the queue pair may hold, which is no less than was asked for.
  ibv_qp_cap Granted() const;

  // The next completion. When none comes the test fails, and the status is
  // IBV_WC_GENERAL_ERR.
  ibv_wc Wait();
  // The next completion, which must be that of `wr_id`.
  ibv_wc_status Outcome(uint64_t wr_id);
  // No completion comes for some milliseconds, in which the peer runs too.
  bool StaysQuiet();

  // The next asynchronous event, acknowledged; -1 when none comes.
  int NextAsyncEvent();
  // None comes for some milliseconds.
  bool HasNoAsyncEvent();
  // Whether the channel becomes readable. It does not within some milliseconds
  // if there is no event.
  bool ChannelIsReadable(bool expected);
  // The next event of the channel, which must be of the queue and is awaited;
  // acknowledged.
  void TakeCompletionEvent();

 private:
  void CreateCompletionQueue();
  void CreateQueuePair();
};

// Connects two ends to each other, by queue pair number and GID.
void Connect(End& a, End& b);

}  // namespace verbena::conformance

#endif  // VERBENA_TESTS_CONFORMANCE_END_H_
