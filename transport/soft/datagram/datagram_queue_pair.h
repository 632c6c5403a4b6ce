// An unreliable-datagram queue pair of the software device.

#ifndef VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_QUEUE_PAIR_H_
#define VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_QUEUE_PAIR_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/datagram/datagram.h"
#include "transport/soft/datagram/datagram_send_queue.h"
#include "transport/soft/queues/queue_pair.h"
#include "transport/soft/queues/receive_source.h"

namespace verbena::soft {

// A queue pair (IBV_QPT_UD): its attributes and state, its queues, and the
// socket that receives what others send to its number.
//
// Polling one of its completion queues sends and receives. While nobody polls,
// or a queue is armed, the engine's thread watches the socket. If the socket of
// a receiver is full, the sender waits for a moment, as on a lossless network.
// Then the message is lost. A message that finds no receive request, or has the
// wrong key, is lost as well.
//
// QueuePair says which objects must outlive the queue pair, and which threads
// may use it. Errors are reported by completions, by asynchronous events and by
// the states SQE and ERR.
class DatagramQueuePair final : public QueuePair {
 public:
  // REQUIRES: GrantInitAttributes() accepts the attributes, and the type is UD.
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
  // There is no need to look: the engine sees what is in the socket.
  bool LookAgain() override { return false; }
  void OnSendPolled(uint32_t count) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    sends_.Free(count);  // Allowed on any thread, without the lock.
  }

  // DeviceQueuePair. The state of its port is looked at for each datagram, and
  // nothing is acknowledged.
  void LookAtPath() override {}
  void WaitForDataPath() override { const base::MutexLock lock(lock_); }
  void Acknowledge() override {}

  // EngineMember:
  TimePoint OnTick(TimePoint now) override;

 private:
  enum class Sending { kDone, kWait, kBadMemory, kBadOpcode };

  void Run() override;
  void CloseSocket() ABSL_LOCKS_EXCLUDED(lock_);

  bool ValuesAreLegal(const ibv_qp_attr& attributes, int mask) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void ApplyAttributes(const ibv_qp_attr& attributes, int mask)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  int OpenSocket() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void SetState(ibv_qp_state to) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void EnterError(std::optional<ibv_event_type> event = std::nullopt)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void Reset() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  bool MayReceive() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void EnterErrorIfQueueFailed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void Watch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);

  int Post(ibv_send_wr* wr, ibv_send_wr** bad_wr)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void Transmit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  // Ends the oldest request with an error, which takes the queue pair to SQE.
  void StopSending(ibv_wc_status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  Sending SendOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  Sending WaitForReceiver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void Receive() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void OnDatagram(size_t length) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  ibv_wc_status Place(const ReceiveRequest& request,
                      const DatagramHeader& header, uint32_t payload_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void PushReceive(const ReceiveRequest& request, ibv_wc_status status,
                   const DatagramHeader& header, uint32_t payload_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void FlushReceives() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);

  // Taken after a completion queue's polling lock and before all its others. No
  // biased lock: whoever holds this one makes system calls.
  base::Mutex lock_;
  ibv_qp_attr attributes_ ABSL_GUARDED_BY(lock_) = {};
  ibv_qp_state state_ ABSL_GUARDED_BY(lock_) = IBV_QPS_RESET;
  // Open from RTR until RESET or ERR.
  base::UniqueFd socket_ ABSL_GUARDED_BY(lock_);
  // The engine watches socket_.
  bool watched_ ABSL_GUARDED_BY(lock_) = false;
  // The engine is to close socket_.
  bool retired_ ABSL_GUARDED_BY(lock_) = false;
  // Polls since the engine watches socket_, while no queue was armed.
  uint32_t polls_watched_ ABSL_GUARDED_BY(lock_) = 0;
  ReceiveSource receives_ ABSL_GUARDED_BY(lock_);
  DatagramSendQueue sends_ ABSL_GUARDED_BY(lock_);
  // Since when the oldest request waits for its receiver; max() when it does
  // not.
  TimePoint waiting_since_ ABSL_GUARDED_BY(lock_) = TimePoint::max();
  // The number of a receiver that made us wait for too long, and that is not
  // waited for again until a datagram has reached it; 0 for none.
  uint32_t slow_receiver_ ABSL_GUARDED_BY(lock_) = 0;
  std::array<std::byte, kDatagramBytesMax + 1> received_ ABSL_GUARDED_BY(lock_);
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_QUEUE_PAIR_H_
