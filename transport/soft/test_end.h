// One end of a connection, for tests of the software device: a context and one
// of everything, and the verbs in short words.

#ifndef VERBENA_TRANSPORT_SOFT_TEST_END_H_
#define VERBENA_TRANSPORT_SOFT_TEST_END_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
};

// Creates everything and, with Connect, brings it up to RTS. Aborts when a
// control verb fails: a test that expects failure calls the verb itself.
//
// One thread, except where the verbs allow more.
class TestEnd {
 public:
  explicit TestEnd(const TestEndOptions& options = {});
  TestEnd(const TestEnd&) = delete;
  TestEnd& operator=(const TestEnd&) = delete;
  ~TestEnd();

  const transport::VerbsOps verbs;
  const TestEndOptions options;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_srq* srq = nullptr;
  ibv_qp* qp = nullptr;
  std::byte* memory = nullptr;  // memory_bytes, aligned to a page.
  ibv_mr* mr = nullptr;

  // The transitions, one by one. Each returns what modify_qp returns.
  int ToInit();
  int ToReadyToReceive(uint32_t peer_number);
  int ToReadyToSend();
  int ToDrained(int more_attributes = 0);
  int ToError();
  int ToReset();
  // All three, or the two that are left when it is in INIT.
  void Connect(uint32_t peer_number);

  // Writes into, and reads from, `memory`.
  void Fill(size_t offset, std::string_view text);
  std::string Text(size_t offset, size_t length) const;
  // The eight bytes at `offset`.
  uint64_t& Word(size_t offset);
  ibv_sge Entry(size_t offset, size_t length) const;

  // Post one request over memory [offset, offset + length).
  int Receive(uint64_t wr_id, size_t offset, size_t length);
  int Send(uint64_t wr_id, size_t offset, size_t length,
           unsigned int flags = IBV_SEND_SIGNALED);
  int Write(uint64_t wr_id, size_t offset, size_t length, uint64_t remote,
            uint32_t rkey, unsigned int flags = IBV_SEND_SIGNALED);
  int Read(uint64_t wr_id, size_t offset, size_t length, uint64_t remote,
           uint32_t rkey, unsigned int flags = IBV_SEND_SIGNALED);
  // An atomic on eight bytes; what was there before comes to `offset`.
  int CompareSwap(uint64_t wr_id, size_t offset, uint64_t remote, uint32_t rkey,
                  uint64_t compare, uint64_t swap);
  int FetchAdd(uint64_t wr_id, size_t offset, uint64_t remote, uint32_t rkey,
               uint64_t add, unsigned int flags = IBV_SEND_SIGNALED);
  int Post(ibv_send_wr request);
  uint64_t Address(size_t offset) const;

  // Polls once; false when there is no completion.
  bool PollOnce(ibv_wc& completion);
  // Polls until there is a completion, also `other`, which may have to make
  // progress meanwhile. Aborts after ten seconds.
  ibv_wc Wait(TestEnd* other = nullptr);

  // Runs the queue pair's protocol without taking completions.
  void RunProtocol();

  // The asynchronous event that waits, acknowledged; -1 if there is none.
  int NextAsyncEvent();

  ibv_qp_state State() const;
  // Polls both ends `passes` times; true if there was no completion at this
  // one.
  bool StaysQuiet(TestEnd* other, int passes = 1000);
};

// Connects two ends of this process to each other by queue pair number.
void ConnectByHand(TestEnd& a, TestEnd& b);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_TEST_END_H_
