// The requests that tests post over one queue pair.

#ifndef VERBENA_TRANSPORT_VERBS_TEST_QUEUE_PAIR_H_
#define VERBENA_TRANSPORT_VERBS_TEST_QUEUE_PAIR_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace verbena::transport {

// The queue key of all datagram queue pairs in tests.
inline constexpr uint32_t kTestQkey = 0x11111111;

// A queue pair of any device, with the memory that its requests are over and
// the queue that its completions come to. Owns nothing: the class that derives
// from it makes and destroys what is here. Confined to one thread, except where
// the verbs allow more.
class TestQueuePair {
 public:
  TestQueuePair(const TestQueuePair&) = delete;
  TestQueuePair& operator=(const TestQueuePair&) = delete;

  ibv_cq* cq = nullptr;
  ibv_srq* srq = nullptr;  // Null when the queue pair has receives of its own.
  ibv_qp* qp = nullptr;
  std::byte* memory = nullptr;
  ibv_mr* mr = nullptr;  // Covers all of `memory`.

  // Writes into, and reads from, `memory`.
  void Fill(size_t offset, absl::string_view text);
  std::string Text(size_t offset, size_t length) const;
  // The eight bytes at `offset`.
  uint64_t& Word(size_t offset);
  uint64_t Address(size_t offset) const;
  ibv_sge Entry(size_t offset, size_t length) const;

  // Post one request over memory [offset, offset + length). Each returns what
  // the verb returns.
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
  // A SEND that invalidates a key of the peer's, and a local invalidate, which
  // is over no memory. Both are signalled.
  int SendInvalidate(uint64_t wr_id, size_t offset, size_t length,
                     uint32_t rkey);
  int Invalidate(uint64_t wr_id, uint32_t rkey);
  // An unreliable datagram: memory [offset, offset + length), to the queue pair
  // `number` at `ah`.
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
  // Posts any one request. Aborts when bad_wr contradicts the result.
  int Post(ibv_send_wr request);
  int PostReceive(ibv_recv_wr request);

  // Polls once; false when there is no completion.
  bool PollOnce(ibv_wc& completion);
  // Runs the protocol of a software device without taking completions.
  void RunProtocol();

 protected:
  TestQueuePair() = default;
  ~TestQueuePair() = default;

 private:
  // Posts `request` over memory [offset, offset + length).
  int PostOver(size_t offset, size_t length, ibv_send_wr request);
  int PostRdma(ibv_wr_opcode opcode, uint64_t wr_id, ibv_sge entry,
               uint64_t remote, uint32_t rkey, unsigned int flags);
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_VERBS_TEST_QUEUE_PAIR_H_
