// One unreliable-datagram queue pair of the software device.

#ifndef VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_QUEUE_PAIR_H_
#define VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_QUEUE_PAIR_H_

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "transport/base/unique_fd.h"
#include "transport/soft/address/datagram.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/datagram/datagram_send_queue.h"
#include "transport/soft/queues/completion_queue.h"
#include "transport/soft/queues/receive_queue.h"
#include "transport/soft/queues/verbs_handle.h"

namespace verbena::soft {

class ProtectionDomain;
class SoftDevice;

// A queue pair (IBV_QPT_UD): its attributes and state, its queues, and the
// socket that receives what others send to its number.
//
// Whoever polls one of its completion queues sends and receives; when nobody
// does, or a queue is armed, the engine's thread watches the socket. A receiver
// whose socket is full makes a sender wait for a moment, as a lossless network
// would, and then loses the message. What finds no receive request, or has the
// wrong key, is lost as well.
//
// Its protection domain, completion queues and shared receive queue outlive it
// (their destroy verbs answer EBUSY until it is gone). Thread-safe, except that
// no other call may be running when it is destroyed.
class DatagramQueuePair final : public QueuePairHandle, public EngineMember {
 public:
  // Sets errno and returns null when the attributes are beyond the device.
  // Writes the capacities granted into `attributes`.
  static std::unique_ptr<DatagramQueuePair> Create(
      SoftDevice& device, ProtectionDomain& pd, ibv_qp_init_attr& attributes);

  DatagramQueuePair(const DatagramQueuePair&) = delete;
  DatagramQueuePair& operator=(const DatagramQueuePair&) = delete;
  ~DatagramQueuePair() override;

  // The queue pair behind a handle. REQUIRES: Is(qp).
  static DatagramQueuePair* From(ibv_qp* qp) {
    return static_cast<DatagramQueuePair*>(qp);
  }
  static bool Is(const ibv_qp* qp) { return qp->qp_type == IBV_QPT_UD; }

  // Verbs. Each has the behaviour and the result of the verb of its name.

  int Modify(const ibv_qp_attr& attributes, int mask);
  void Query(ibv_qp_attr& attributes, ibv_qp_init_attr& init_attributes);
  int PostSend(ibv_send_wr* wr, ibv_send_wr** bad_wr);
  int PostReceive(ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
  // As PostSend, but posts all of the chain or nothing.
  int PostAll(ibv_send_wr* chain);

  // For completion queues.

  // Sends and receives once, unless another thread is doing so.
  void Poll();
  // A completion queue has been armed: from now on a datagram is noticed though
  // nobody polls.
  void OnArmed();
  void OnSendPolled(uint32_t count) { sends_.Free(count); }

  // Waits until a copy that was under way is finished.
  void WaitForDataPath() { std::lock_guard<std::mutex> lock(lock_); }

  // Multicast groups that it is attached to; see MulticastGroups.
  std::atomic<int>& groups() { return groups_; }

  EventQueue::Source& async_source() { return async_source_; }

  // EngineMember:
  TimePoint OnTick(TimePoint now) override;

 private:
  DatagramQueuePair(SoftDevice& device, ProtectionDomain& pd,
                    const ibv_qp_init_attr& attributes);

  enum class Sending { kDone, kWait, kBadMemory };

  void CloseSocket();  // Not with lock_ held.

  // Everything below until the fields REQUIRES lock_ to be held.
  bool ValuesAreLegal(const ibv_qp_attr& attributes, int mask) const;
  void ApplyAttributes(const ibv_qp_attr& attributes, int mask);
  int OpenSocket();
  void SetState(ibv_qp_state to);
  void EnterError(int event);
  void Reset();
  void RaiseEvent(int type);
  bool MayReceive() const;
  bool AnyQueueArmed() const { return send_cq_.armed() || recv_cq_.armed(); }
  void SettleFailures();
  void Watch();

  int Post(ibv_send_wr* wr, ibv_send_wr** bad_wr);
  void Transmit();
  Sending SendOldest();
  Sending WaitForReceiver();
  void Receive();
  void OnDatagram(size_t length);
  bool TakeReceive(ReceiveRequest& request);
  ibv_wc_status Place(const ReceiveRequest& request,
                      const DatagramHeader& header, uint32_t payload_bytes);
  void PushReceive(const ReceiveRequest& request, ibv_wc_status status,
                   const DatagramHeader& header, uint32_t payload_bytes);
  void FlushReceives();

  SoftDevice& device_;
  EventQueue::Source async_source_;
  const ibv_qp_init_attr init_attributes_;  // With the capacities granted.
  CompletionQueue& send_cq_;
  CompletionQueue& recv_cq_;
  std::atomic<int> groups_{0};

  std::atomic<uint32_t> polls_{0};
  uint32_t polls_seen_ = 0;  // Of the engine's thread only: at its last tick.

  // Taken after a completion queue's polling lock and before all its others. No
  // biased lock: whoever holds this one makes system calls.
  std::mutex lock_;
  // State below is protected by lock_.
  ibv_qp_attr attributes_ = {};
  ibv_qp_state state_ = IBV_QPS_RESET;
  bool is_engine_member_ = false;
  base::UniqueFd socket_;       // From RTR until RESET or ERR.
  bool watched_ = false;        // By the engine.
  bool retired_ = false;        // The engine is to close it.
  uint32_t polls_watched_ = 0;  // Since then, with no queue armed.
  ReceiveQueue receive_queue_;  // Unused with a shared receive queue.
  DatagramSendQueue sends_;
  // Since when the oldest request waits for its receiver; max() when it does
  // not. One that made us wait for too long is not waited for again until
  // something has reached it.
  TimePoint waiting_since_ = TimePoint::max();
  uint32_t slow_receiver_ = 0;  // Its number; 0 for none.
  std::array<std::byte, kDatagramBytesMax + 1> received_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_QUEUE_PAIR_H_
