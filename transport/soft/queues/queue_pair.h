// The interface of a queue pair of any type to verbs and completion queues.

#ifndef VERBENA_TRANSPORT_SOFT_QUEUES_QUEUE_PAIR_H_
#define VERBENA_TRANSPORT_SOFT_QUEUES_QUEUE_PAIR_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

#include "transport/soft/base/event_queue.h"
#include "transport/soft/base/waiter_bell.h"
#include "transport/soft/device/device_queue_pair.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/link/idle_watch.h"
#include "transport/soft/queues/completion_queue.h"
#include "transport/soft/queues/polled_queue_pairs.h"
#include "transport/soft/queues/verbs_handle.h"

namespace verbena::soft {

// The base of ConnectedQueuePair (RC and UC) and DatagramQueuePair (UD): the
// handle that users hold, its queues, and what completion queues ask of it.
//
// Its protection domain, completion queues and shared receive queue outlive it
// (their destroy verbs answer EBUSY until it is gone). Thread-safe, except that
// no other call may be running when it is destroyed.
class QueuePair : public QueuePairHandle, public DeviceQueuePair {
 public:
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  ~QueuePair() override;

  // The queue pair behind a handle of this device.
  static QueuePair* From(ibv_qp* qp) { return static_cast<QueuePair*>(qp); }

  // Verbs. Each has the behaviour and the result of the verb of its name.

  virtual int Modify(const ibv_qp_attr& attributes, int mask) = 0;
  virtual void Query(ibv_qp_attr& attributes,
                     ibv_qp_init_attr& init_attributes) = 0;
  virtual int PostSend(ibv_send_wr* wr, ibv_send_wr** bad_wr) = 0;
  virtual int PostReceive(ibv_recv_wr* wr, ibv_recv_wr** bad_wr) = 0;
  // Like PostSend(), but posts all of the chain or nothing.
  virtual int PostAll(ibv_send_wr* chain) = 0;

  // For completion queues.

  // Sends and receives once, unless another thread is doing so or there is
  // nothing to do.
  void Poll() {
    // Several threads may poll; a lost count does no harm.
    polls_.store(polls_.load(std::memory_order_relaxed) + 1,
                 std::memory_order_relaxed);
    if (!idle_watch_.NothingNew()) Run();
  }

  // Its socket, which leads to another host, is ready: for a poll, and for a
  // thread that waits. REQUIRES: the polling lock is held.
  virtual void PollStream() {}
  virtual void AnswerStream() {}

  // A completion queue has been armed: from now on the queue pair notices what
  // there is to do though nobody polls. PrepareToSleep() returns whether a
  // fence is needed before LookAgain() looks for what came before it.
  // LookAgain() returns whether the queue pair has parked itself. Both REQUIRE
  // that the polling lock is held.
  virtual bool PrepareToSleep() = 0;
  virtual bool LookAgain() = 0;
  // A thread that waits at the completion channel was rung: looks what there is
  // to do. REQUIRES: the polling lock is held.
  virtual void AnswerBell(const WaiterBell::Ring& /*ring*/) {}

  // A send completion that covers the requests before `count` has been polled:
  // their slots of the send queue are free again.
  virtual void OnSendPolled(uint32_t count) = 0;

  PolledQueuePairs::Parking& parking() { return parking_; }

  // Raises an asynchronous event about this queue pair.
  void RaiseEvent(ibv_event_type type);
  EventQueue::Source& async_source() { return async_source_; }

  // The number of multicast groups that the queue pair is attached to. They
  // keep it from being destroyed.
  std::atomic<int>& children() { return children_; }

  // DeviceQueuePair:
  ibv_qp* handle() final { return this; }

 protected:
  QueuePair(SoftDevice& device, ProtectionDomain& pd,
            const ibv_qp_init_attr& attributes);

  // Takes a number of that kind, which is 0 if there is none left, and attaches
  // the queue pair to its completion queues. It must be the last thing that the
  // constructor of a derived class does, because polls run the queue pair from
  // now on.
  void Register(NumberKind kind);
  // Gives the number back, so that nobody finds the queue pair any more. It
  // must be the first thing that the destructor of a derived class does.
  void Unregister();
  // From now on the engine, polls and events leave the queue pair alone. It
  // must be the last thing that the destructor of a derived class does.
  void DetachFromQueues();

  // Sends and receives once, unless another thread is doing so.
  virtual void Run() = 0;

  // For the engine's thread: whether anybody has polled since the last call.
  bool PolledSinceLastLook() { return PollsSinceLastLook() > 0; }
  // How often, modulo 2^32.
  uint32_t PollsSinceLastLook();

  // The engine calls OnTick() from now on.
  void JoinEngine();

  bool AnyQueueArmed() const { return send_cq_.armed() || recv_cq_.armed(); }
  bool AnyQueueFailed() const { return send_cq_.failed() || recv_cq_.failed(); }

  SoftDevice& device_;
  const ibv_qp_init_attr init_attributes_;  // With the capacities granted.
  CompletionQueue& send_cq_;
  CompletionQueue& recv_cq_;
  // Never begins for a queue pair that has to look at every poll.
  IdleWatch idle_watch_;

 private:
  std::atomic<uint32_t> polls_{0};  // How often it was polled.
  uint32_t polls_seen_ = 0;  // At the last look, by the engine's thread alone.
  PolledQueuePairs::Parking parking_;
  EventQueue::Source async_source_;
  std::atomic<int> children_{0};
  bool is_engine_member_ = false;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_QUEUES_QUEUE_PAIR_H_
