// The send queue of a datagram queue pair.

#ifndef VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_SEND_QUEUE_H_
#define VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_SEND_QUEUE_H_

#include <infiniband/verbs.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "transport/soft/base/limits.h"
#include "transport/soft/datagram/datagram.h"
#include "transport/soft/datagram/datagram_route.h"
#include "transport/soft/memory/memory_table.h"
#include "transport/soft/queues/completion_queue.h"
#include "transport/soft/queues/send_ring.h"

namespace verbena::soft {

class QueuePair;

// The requests that were posted and have not ended, oldest first. They are
// numbered by a free-running counter, and pass these marks in order: freed
// (kept by SendRing) <= ended_ <= posted_.
//
// The objects that the environment names must outlive the queue. Not
// thread-safe: protected by the queue pair's lock, except Free(). Allocates
// only when created.
class DatagramSendQueue {
 public:
  struct Environment {
    QueuePair* qp;
    CompletionQueue* cq;
    const MemoryTable* memory;
    const ProtectionDomain* pd;
  };

  // A datagram of up to kGatherEntriesMax parts, with its header in front.
  struct Parts {
    DatagramHeader header;  // In network byte order.
    std::array<iovec, kGatherEntriesMax + 1> parts;
    int count = 0;
  };

  DatagramSendQueue(const Environment& environment,
                    const ibv_qp_init_attr& attributes);

  // Copies the chain. Returns 0, or ENOMEM (full) or EINVAL with `*bad_wr` at
  // the first request that was refused.
  int Post(ibv_send_wr* wr, ibv_send_wr** bad_wr);
  // 0 when Post() would take the whole chain; else the error that it would
  // return.
  int CheckAll(const ibv_send_wr* chain) const;

  bool empty() const { return ended_ == posted_; }

  // The next six methods are about the oldest request that has not ended. They
  // REQUIRE that !empty().
  const DatagramRoute& route() { return ring_.slot(ended_).route; }
  uint32_t destination_qp() { return ring_.slot(ended_).header.destination_qp; }
  uint32_t length() { return ring_.slot(ended_).length; }
  bool legal() { return ring_.slot(ended_).legal; }
  // Puts the parts of its datagram together; `own_qkey` takes the place of a
  // Q_Key with the top bit set. False when some of its memory is not
  // registered.
  bool Gather(uint32_t own_qkey, Parts& parts);
  // Ends it. A completion is pushed if it is signalled or has failed.
  void End(ibv_wc_status status);

  // Ends all requests with IBV_WC_WR_FLUSH_ERR.
  void Flush();
  // Forgets everything, without completions.
  void Reset();

  // A completion that covers the requests before `count` has been polled. From
  // any thread.
  void Free(uint32_t count) { ring_.Free(count); }

 private:
  struct Slot {
    uint64_t wr_id;
    uint32_t length;
    uint16_t entry_count;
    uint8_t flags;  // ibv_send_flags.
    bool legal;     // Its opcode is one of datagrams. If not, no more is set.
    DatagramHeader header;
    DatagramRoute route;
  };

  int Check(const ibv_send_wr& wr, uint64_t& length) const;
  void Store(const ibv_send_wr& wr, uint32_t length);

  const Environment environment_;
  const uint8_t flags_of_all_;  // Added to each Slot::flags; from sq_sig_all.
  SendRing<Slot> ring_;
  uint32_t ended_ = 0;   // Requests that have ended.
  uint32_t posted_ = 0;  // Requests that were ever posted.
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_SEND_QUEUE_H_
