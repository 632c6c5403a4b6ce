// One connected queue pair of the software device, reliable (RC) or not (UC).

#ifndef VERBENA_TRANSPORT_SOFT_CONNECTED_QUEUE_PAIR_H_
#define VERBENA_TRANSPORT_SOFT_CONNECTED_QUEUE_PAIR_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "transport/soft/base/biased_lock.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/connected/path_migration.h"
#include "transport/soft/connected/requester.h"
#include "transport/soft/connected/responder.h"
#include "transport/soft/device/hand_link.h"
#include "transport/soft/device/queue_pair_directory.h"
#include "transport/soft/link/link.h"
#include "transport/soft/link/link_port.h"
#include "transport/soft/queues/completion_queue.h"
#include "transport/soft/queues/receive_queue.h"
#include "transport/soft/queues/verbs_handle.h"

namespace verbena::soft {

class ProtectionDomain;
class SharedReceiveQueue;
class SoftDevice;

// A fault for tests; see soft_faults.h.
enum class LinkHold { kNone, kStalled, kCut, kSlow };

// A queue pair: its attributes and state, a requester and a responder, and the
// link that joins it to its peer.
//
// Whoever polls one of its completion queues runs its protocol; when nobody
// does, the engine's thread does, woken by the peer's doorbell.
//
// Its protection domain, completion queues and shared receive queue outlive it
// (their destroy verbs answer EBUSY until it is gone). Thread-safe, except that
// no other call may be running when it is destroyed. What goes wrong on the
// wire is reported by completions, by asynchronous events and by the state ERR.
class QueuePair final : public QueuePairHandle, public EngineMember {
 public:
  // Sets errno and returns null when the attributes are beyond the device.
  // Writes the capacities granted into `attributes`.
  static std::unique_ptr<QueuePair> Create(SoftDevice& device,
                                           ProtectionDomain& pd,
                                           ibv_qp_init_attr& attributes);

  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  ~QueuePair() override;

  // The queue pair behind a handle of this device.
  static QueuePair* From(ibv_qp* qp) { return static_cast<QueuePair*>(qp); }

  // For the connection manager.

  // Joins this queue pair to the peer behind `memory`, as `side`. To wake the
  // peer it sends the byte kDoorbell on `socket_fd`, a connected SOCK_SEQPACKET
  // socket, borrowed until DetachLink(). Call it before the transition to RTR:
  // packets of the peer wait in the ring until then.
  // REQUIRES: no link is attached.
  void AttachLink(LinkMemory memory, LinkSide side, int socket_fd);

  // Closes this side of the link and lets go of the socket. The peer, if it
  // still sends, sees its retries exceeded. Does nothing without a link.
  void DetachLink();

  // A doorbell has arrived on the socket.
  void OnDoorbell();

  // The socket has reached its end or failed: the peer's process is gone, or it
  // has let go of the link. Delivers what the peer had sent before, then fails
  // what is outstanding with IBV_WC_RETRY_EXC_ERR and enters ERR.
  void OnPeerGone();

  // The same for a link that was made by hand: the queue pair goes on without
  // one.
  void OnHandLinkEnd();

  // Tells the peer what has been executed, which polls leave for later.
  void Acknowledge();

  // Faults for tests; see soft_faults.h. A hold takes the place of another.
  void HoldLink(LinkHold hold,
                std::function<std::chrono::nanoseconds()> next_pause = {});
  void ReleaseLink();
  void ForceReceiverNotReady(uint32_t times);

  // A port of the device has gone down or come up, or the peer may have said
  // something about its path. While a path is down, nothing is sent or taken,
  // and requests run out of retries.
  void LookAtPath();

  // Verbs. Each has the behaviour and the result of the verb of its name.

  int Modify(const ibv_qp_attr& attributes, int mask);
  void Query(ibv_qp_attr& attributes, ibv_qp_init_attr& init_attributes);
  int PostSend(ibv_send_wr* wr, ibv_send_wr** bad_wr);
  int PostReceive(ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
  // As PostSend, but posts all of the chain or nothing.
  int PostAll(ibv_send_wr* chain);

  // For completion queues.

  // Runs the protocol once, unless another thread is doing so.
  void Poll();

  // A completion queue of this queue pair has been armed. First all its queue
  // pairs ask their peers to ring from now on; the result says whether a fence
  // is needed before they look once more for what came before the peer knew.
  bool PrepareToSleep();
  void LookAgain();

  // A send completion that covers requests before `count` has been polled:
  // their slots of the send queue are free again.
  void OnSendPolled(uint32_t count) { requester_.Free(count); }

  // For the responder: the peer has sent something. REQUIRES its lock.
  void OnFirstPacket() {
    if (state_ == IBV_QPS_RTR) RaiseEvent(IBV_EVENT_COMM_EST);
  }

  // Waits until a copy that was under way at the last
  // BiasedLock::FenceAllThreads() is finished.
  void WaitForDataPath() { lock_.WaitForHolder(); }

  // What its completion queue notes about it; see CompletionQueue::Park().
  struct Parking {
    // Written with the queue's polling lock held.
    std::atomic<bool> parked{false};
    std::atomic<bool> returning{false};  // It is in the list of such.
    QueuePair* next = nullptr;           // In that list.
  };
  Parking& parking() { return parking_; }

  EventQueue::Source& async_source() { return async_source_; }

  // EngineMember:
  TimePoint OnTick(TimePoint now) override;

 private:
  QueuePair(SoftDevice& device, ProtectionDomain& pd,
            const ibv_qp_init_attr& attributes);

  // Everything below until the fields REQUIRES lock_ to be held.
  int Post(ibv_send_wr* wr, ibv_send_wr** bad_wr);
  void ApplyAttributes(const ibv_qp_attr& attributes, int mask);
  // What it returns is to be dropped after WaitForPolls().
  std::optional<LinkMemory> EnterState(ibv_qp_state state);
  bool MayReceive() const {
    return state_ == IBV_QPS_RTR || state_ == IBV_QPS_RTS ||
           state_ == IBV_QPS_SQD;
  }
  void OpenLink();
  void ServeLink();
  void EnterError(int event);
  void RaiseEvent(int type);
  std::optional<LinkMemory> Reset();
  std::optional<LinkMemory> Detach();
  // Runs the protocol once; whether anything arrived.
  bool Progress();
  bool HandleIncoming();
  bool HandlePacket(const Packet& packet);
  bool ReadPeerWords();
  void Transmit();
  int TransmitPass();
  void AfterTransmit();
  void SetDraining(bool draining);
  void AskForRoomSlow();
  void TellEngine();
  bool MayPark(TimePoint now, bool idle);
  void TryPark();
  void Settle();
  void Unsettle() { settled_.store(false, std::memory_order_relaxed); }
  bool MustSettle() const;
  void SettleFailures();
  void PostWithoutPeer();
  void NotePeerState();
  void NotePeerNow();
  void NotePeerOfUnreliable();

  // The path (queue_pair_path.cc).

  // Of what modify_qp is given, what depends on what it was given before.
  bool StateOfPathIsLegal(const ibv_qp_attr& attributes, int mask) const;
  void SetMigrationState(ibv_mig_state to);
  void TellPeerOfMigration();
  void Migrate();
  bool TryMigrate();
  // Does as the peer and the ports demand. Takes packets: with the polling lock
  // held.
  void NotePath();
  void SetPathUp(bool up);
  bool LeavePath();
  void GiveUp();
  std::chrono::nanoseconds TransportTimeout() const;
  bool Connected() const { return receiving_ && port_.attached(); }
  LinkSleep WantedSleep() const;
  bool TransferUnderWay() const;
  bool Serve(TimePoint now);
  TimePoint LookAfter(TimePoint now, bool polled);
  void Sleep();
  // Takes packets: with the polling lock held, as Progress() and GiveUp().
  void Drain();
  void WakeUp();
  bool AnyQueueArmed() const { return send_cq_.armed() || recv_cq_.armed(); }
  TimePoint NextTick(TimePoint now);

  // A link that is held (queue_pair_faults.cc).
  void PutLinkAside();
  void TakePortAway();
  void MoveHeldLink(TimePoint now);
  TimePoint TickHeld(TimePoint now);

  void WaitForPolls();  // Not with lock_ held.

  // REQUIRES: modify_mutex_ is held, and lock_ is not.
  void ConnectByHand(const ibv_qp_attr& attributes);

  // Takes the link that is awaited, if it has come. On the engine's thread.
  void TakeAwaitedLink();

  SoftDevice& device_;
  EventQueue::Source async_source_;
  const ibv_qp_init_attr init_attributes_;  // With the capacities granted.
  CompletionQueue& send_cq_;
  CompletionQueue& recv_cq_;

  std::mutex modify_mutex_;  // One Modify() at a time; taken before lock_.
  // State below is protected by modify_mutex_.
  bool is_engine_member_ = false;
  std::unique_ptr<HandLink> hand_link_;  // Null without one.
  HandPeer hand_peer_;                   // Whose link is awaited.
  // The peer is to make the link; see QueuePairDirectory. Written under
  // modify_mutex_.
  std::atomic<bool> awaits_link_{false};

  // Polls so far, and what a poll looks at before it takes lock_. While
  // settled_ is true, nothing is to be done until one of the watched words
  // changes. Only with one completion queue for both directions: whoever takes
  // packets from the link holds its polling lock as well as lock_, so no poll
  // looks at a stamp that is behind us. Written under lock_, polls_ by polls.
  std::atomic<uint32_t> polls_{0};
  std::atomic<bool> settled_{false};
  std::atomic<const std::atomic<uint64_t>*> watched_stamp_{nullptr};
  std::atomic<const std::atomic<uint64_t>*> watched_progress_{nullptr};
  std::atomic<uint64_t> stamp_awaited_{0};
  std::atomic<uint64_t> progress_seen_{0};

  // What the engine has to know of the requests, so that it need not take the
  // locks of a queue pair that is being polled.
  static constexpr uint64_t kNothingUnfinished = ~uint64_t{0};
  static constexpr uint64_t kDeadlineSet = kNothingUnfinished - 1;
  // One of these, or how many requests have ended. Written under lock_.
  std::atomic<uint64_t> requests_ended_{kNothingUnfinished};
  std::atomic<uint32_t> activity_{0};  // Changes with every packet.
  // Of the engine's thread only: what it saw at its last tick.
  uint32_t polls_seen_ = 0;
  uint64_t requests_ended_seen_ = kNothingUnfinished;
  uint32_t activity_seen_ = 0;
  TimePoint silent_since_;

  Parking parking_;

  // A fault for tests. Written under lock_.
  std::atomic<LinkHold> hold_{LinkHold::kNone};

  BiasedLock lock_;
  // State below is protected by lock_.
  ibv_qp_attr attributes_ = {};
  ibv_qp_state state_ = IBV_QPS_RESET;
  // MayReceive(), and the path is up at both sides.
  bool receiving_ = false;
  bool watched_ = false;  // AfterTransmit() has something to do.
  bool drained_event_wanted_ = false;
  LinkPort port_;
  PathMigration migration_;
  bool migration_refused_ = false;  // There was an event about it.
  bool path_up_ = true;             // At this side, as the peer knows.
  ReceiveQueue receive_queue_;      // Unused with a shared receive queue.
  Requester requester_;
  Responder responder_;
  bool asleep_ = false;        // The peer has been asked to ring.
  uint32_t polls_asleep_ = 0;  // Since then, with no queue armed.
  bool kick_wanted_ = false;   // The engine is to look at our deadlines.
  // When to give up on a peer that is not open; max() while it is.
  TimePoint give_up_at_ = TimePoint::max();
  LinkPort link_aside_;  // The port of a link that is held, in place of port_.
  std::function<std::chrono::nanoseconds()> next_pause_;
  TimePoint next_move_ = TimePoint::max();
  // Until when the engine serves a transfer without sleeping; see Serve().
  TimePoint serve_until_ = TimePoint::min();
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CONNECTED_QUEUE_PAIR_H_
