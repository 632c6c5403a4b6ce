// One unreliable-datagram queue pair of the software device.

#ifndef VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_QUEUE_PAIR_H_
#define VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_QUEUE_PAIR_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include "transport/base/unique_fd.h"
#include "transport/soft/address/datagram.h"
#include "transport/soft/datagram/datagram_send_queue.h"
#include "transport/soft/queues/queue_pair.h"
#include "transport/soft/queues/receive_queue.h"

namespace verbena::soft {

// A queue pair (IBV_QPT_UD): its attributes and state, its queues, and the
// socket that receives what others send to its number.
//
// Whoever polls one of its completion queues sends and receives; when nobody
// does, or a queue is armed, the engine's thread watches the socket. A receiver
// whose socket is full makes a sender wait for a moment, as a lossless network
// would, and then loses the message. What finds no receive request, or has the
// wrong key, is lost as well.
class DatagramQueuePair final : public QueuePair {
 public:
  // REQUIRES: CheckInitAttributes() accepts the attributes, and the type is UD.
  // Its number is 0 when the device has none left.
  DatagramQueuePair(SoftDevice& device, ProtectionDomain& pd,
                    const ibv_qp_init_attr& attributes);
  ~DatagramQueuePair() override;

  // QueuePair:
  int Modify(const ibv_qp_attr& attributes, int mask) override;
  void Query(ibv_qp_attr& attributes,
             ibv_qp_init_attr& init_attributes) override;
  int PostSend(ibv_send_wr* wr, ibv_send_wr** bad_wr) override;
  int PostReceive(ibv_recv_wr* wr, ibv_recv_wr** bad_wr) override;
  int PostAll(ibv_send_wr* chain) override;
  bool PrepareToSleep() override;
  void LookAgain() override {}  // The engine sees what is in the socket.
  void OnSendPolled(uint32_t count) override { sends_.Free(count); }

  // DeviceQueuePair. Its path is looked at for each datagram, and nothing is
  // acknowledged.
  void LookAtPath() override {}
  void WaitForDataPath() override { std::lock_guard<std::mutex> lock(lock_); }
  void Acknowledge() override {}

  // EngineMember:
  TimePoint OnTick(TimePoint now) override;

 private:
  enum class Sending { kDone, kWait, kBadMemory };

  void Run() override;
  void CloseSocket();  // Not with lock_ held.

  // Everything below until the fields REQUIRES lock_ to be held.
  bool ValuesAreLegal(const ibv_qp_attr& attributes, int mask) const;
  void ApplyAttributes(const ibv_qp_attr& attributes, int mask);
  int OpenSocket();
  void SetState(ibv_qp_state to);
  void EnterError(std::optional<ibv_event_type> event = std::nullopt);
  void Reset();
  bool MayReceive() const;
  void EnterErrorIfQueueFailed();
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

  // Taken after a completion queue's polling lock and before all its others. No
  // biased lock: whoever holds this one makes system calls.
  std::mutex lock_;
  // State below is protected by lock_.
  ibv_qp_attr attributes_ = {};
  ibv_qp_state state_ = IBV_QPS_RESET;
  base::UniqueFd socket_;       // From RTR until RESET or ERR.
  bool watched_ = false;        // By the engine.
  bool retired_ = false;        // The engine is to close it.
  uint32_t polls_watched_ = 0;  // Since then, with no queue armed.
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
