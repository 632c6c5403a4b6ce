// The receiving half of a queue pair: executes what the peer asks.

#ifndef VERBENA_TRANSPORT_SOFT_CONNECTED_RESPONDER_H_
#define VERBENA_TRANSPORT_SOFT_CONNECTED_RESPONDER_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <optional>

#include "transport/soft/base/limits.h"
#include "transport/soft/link/link_end.h"
#include "transport/soft/memory/memory_table.h"
#include "transport/soft/memory/memory_windows.h"
#include "transport/soft/memory/scatter_gather.h"
#include "transport/soft/queues/completion_queue.h"
#include "transport/soft/queues/receive_source.h"

namespace verbena::soft {

// Executes requests in order: checks them, copies, completes receives, answers
// READs and atomics when the ring has room, and says no with a NAK.
//
// The objects that the environment names must outlive the responder. Not
// thread-safe: protected by the queue pair's lock. Never allocates.
class Responder {
 public:
  struct Environment {
    QueuePair* qp;
    CompletionQueue* cq;
    const MemoryTable* memory;
    MemoryWindows* windows;
    const ProtectionDomain* pd;
    ReceiveSource* receives;
    bool unreliable;  // The queue pair is of type UC.
  };

  explicit Responder(const Environment& environment)
      : environment_(environment) {}

  // How modify_qp configures it.
  void SetAccess(unsigned int access) { access_ = access; }
  void SetReadsMax(uint8_t reads_max) { reads_max_ = reads_max; }
  void SetRnrTimer(uint8_t timer) { rnr_timer_ = timer; }

  // Executes one packet of a request; false when a correct peer cannot have
  // sent it.
  bool OnPacket(const Packet& packet);

  // Sends the next packet of a READ response, or a NAK that is due; false when
  // there is none, or no room.
  bool TransmitOne(LinkEnd& link);

  // Requests executed so far: what the peer is told.
  uint32_t executed() const { return executed_; }

  // Whether a request has been refused for good, and the peer has been told, or
  // a receive of an unreliable connection names memory that it may not. Then
  // the queue pair must enter ERR and raise event(), if there is one.
  bool failed() const { return failed_; }
  std::optional<ibv_event_type> event() const { return event_; }

  // Whether the peer has sent a request.
  bool met() const { return met_; }
  // Whether a message has come in part.
  bool in_message() const { return in_message_; }
  // Whether a response has been sent in part.
  bool in_response() const {
    return reads_count_ != 0 && reads_[reads_head_].offset != 0;
  }
  // Whether responses wait for room in the ring, which is worth a doorbell.
  bool wants_progress() const { return reads_count_ != 0 || nak_due_; }

  // Ends a receive that is being filled, and then all receives of the queue
  // pair's own queue, with IBV_WC_WR_FLUSH_ERR.
  void Flush();
  // Forgets everything, without completions.
  void Reset();

 private:
  // A READ or an atomic that is to be answered. An atomic has been executed
  // already: only the value that was there before is left to be sent. Its rkey
  // is 0, which tells it from a READ, because no memory has that key.
  struct ReadRequest {
    uint32_t number;
    uint32_t rkey;
    uint64_t address;
    uint32_t length;
    uint32_t offset;  // Bytes already sent.
    uint64_t result;  // The value before the atomic.
  };

  bool OnWholeSend(const Packet& packet);
  bool OnAnyPacket(const Packet& packet);
  bool OnSend(const Packet& packet);
  bool OnWrite(const Packet& packet);
  void FailReceiveOfWrite(const Packet& packet);
  bool OnRead(const Packet& packet);
  bool OnAtomic(const Packet& packet);
  void Note(const ReadRequest& read);
  void Meet();
  bool Expects(const Packet& packet);
  bool Place(const Packet& packet);
  std::byte* Find(uint32_t key, uint64_t address, uint64_t length,
                  unsigned int access) const;
  std::byte* FindInWindow(uint32_t key, uint64_t address, uint64_t length,
                          unsigned int access) const;
  bool OnInvalidate(const Packet& packet);
  bool Allows(uint32_t rkey, uint64_t address, uint32_t length,
              unsigned int access) const;
  bool TakeReceive();
  void PushReceive(ibv_wc_status status, ibv_wc_opcode opcode,
                   const Packet* last);
  void Drop(const Packet& packet, NakReason reason,
            std::optional<ibv_event_type> event);
  void Refuse(uint32_t number, NakReason reason,
              std::optional<ibv_event_type> event);
  bool FollowsLoss(const Packet& packet);
  bool Resumes(const Packet& packet);
  void Skip(const Packet& packet);
  bool SkipRest(const Packet& packet);
  bool TransmitReadResponse(LinkEnd& link);
  bool RefuseRead(LinkEnd& link, uint32_t number);
  bool TransmitNak(LinkEnd& link);
  ScatterGatherList ReceiveList() const;

  const Environment environment_;
  unsigned int access_ = 0;  // IBV_ACCESS_REMOTE_*
  uint8_t reads_max_ = 0;
  uint8_t rnr_timer_ = 0;

  uint32_t executed_ = 0;  // Also the number of the request that comes next.
  // Packets are dropped. On a reliable connection this lasts until request
  // executed_ comes from its beginning, which after a refusal for good never
  // happens; on an unreliable one it lasts to the end of request executed_. It
  // is also true before the first packet, so that the usual packet costs no
  // look whether it is the first.
  bool dropping_ = true;
  bool met_ = false;  // The first packet has come.
  bool nak_due_ = false;
  uint32_t nak_number_ = 0;  // The request that is refused.
  NakReason nak_reason_ = NakReason::kReceiverNotReady;
  bool failed_ = false;
  std::optional<ibv_event_type> event_;

  // The request that has come in part.
  bool in_message_ = false;
  PacketKind message_kind_ = PacketKind::kNone;
  uint32_t message_offset_ = 0;  // Bytes of it placed so far.
  uint32_t write_length_ = 0;
  uint32_t write_rkey_ = 0;
  uint64_t write_address_ = 0;

  // receive_ is being filled. On an unreliable connection it may also wait for
  // the next message.
  bool receive_taken_ = false;
  ReceiveRequest receive_;
  uint64_t receive_capacity_ = 0;

  // READs and atomics to be answered, oldest first.
  std::array<ReadRequest, kReadsMax> reads_;
  uint32_t reads_head_ = 0;
  uint32_t reads_count_ = 0;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CONNECTED_RESPONDER_H_
