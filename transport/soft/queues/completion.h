// A completion in a completion queue.

#ifndef VERBENA_TRANSPORT_SOFT_QUEUES_COMPLETION_H_
#define VERBENA_TRANSPORT_SOFT_QUEUES_COMPLETION_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <type_traits>

namespace verbena::soft {

class QueuePair;

// The fields of ibv_wc, and those that the queue itself needs.
struct Completion {
  uint64_t wr_id;
  QueuePair* qp;
  uint32_t byte_len;
  uint32_t immediate;
  union {
    // For a request to send: the requests before this number are free once the
    // completion has been polled.
    uint32_t sent_up_to;
    // For a datagram that was received: the number of the sender, and above it
    // the service level.
    uint32_t sender;
  };
  uint8_t status;
  uint8_t opcode;
  uint8_t flags;
  // Whether it raises an event even if the queue is armed for solicited
  // completions only.
  bool solicited;

  void SetSender(uint32_t qp_num, uint8_t service_level) {
    sender = qp_num | uint32_t{service_level} << 24;
  }
};
static_assert(sizeof(Completion) == 32);
// Otherwise making a queue would touch all its memory.
static_assert(std::is_trivially_default_constructible_v<Completion>);
static_assert(IBV_WC_RECV_RDMA_WITH_IMM <= 0xff);

// When a completion came.
struct CompletionTime {
  uint64_t clock;         // ClockNow().
  uint64_t wallclock_ns;  // Nanoseconds since 1970.
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_QUEUES_COMPLETION_H_
