// A connected queue pair of the software device, reliable (RC) or not (UC).

#ifndef VERBENA_TRANSPORT_SOFT_CONNECTED_CONNECTED_QUEUE_PAIR_H_
#define VERBENA_TRANSPORT_SOFT_CONNECTED_CONNECTED_QUEUE_PAIR_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/soft/base/biased_lock.h"
#include "transport/soft/connected/driven_link.h"
#include "transport/soft/connected/engine_notes.h"
#include "transport/soft/connected/held_link.h"
#include "transport/soft/connected/link_finder.h"
#include "transport/soft/connected/packet_exchange.h"
#include "transport/soft/connected/path_migration.h"
#include "transport/soft/connected/queue_pair_attributes.h"
#include "transport/soft/link/link.h"
#include "transport/soft/link/link_end.h"
#include "transport/soft/queues/queue_pair.h"
#include "transport/soft/queues/receive_source.h"

namespace verbena::soft {

// A queue pair: its attributes and state, a requester and a responder, and the
// link that joins it to its peer.
//
// Polling one of its completion queues runs its protocol. While nobody polls,
// the engine's thread runs it, woken by the peer's doorbell.
//
// Errors on the wire are reported by completions, by asynchronous events and by
// the state ERR. QueuePair says which objects must outlive the queue pair, and
// which threads may use it.
class ConnectedQueuePair final : public QueuePair {
 public:
  // REQUIRES: GrantInitAttributes() accepts the attributes, and the type is RC
  // or UC. Its number, of that kind, is 0 when the device has none left.
  ConnectedQueuePair(SoftDevice& device, ProtectionDomain& pd,
                     const ibv_qp_init_attr& attributes, NumberKind kind);
  ~ConnectedQueuePair() override;

  // The queue pair behind a handle of this device. REQUIRES: its type is RC or
  // UC.
  static ConnectedQueuePair* From(ibv_qp* qp) {
    return static_cast<ConnectedQueuePair*>(qp);
  }

  // From now on it can be connected manually; without a finder it is refused
  // with EOPNOTSUPP. Called before anybody else knows the queue pair.
  void SetLinkFinder(std::unique_ptr<LinkFinder> finder) {
    finder_ = std::move(finder);
  }

  // For the connection manager.

  // Joins this queue pair to the peer behind `memory`, as `side`. To wake the
  // peer it sends the byte kDoorbell on `socket_fd`, a connected SOCK_SEQPACKET
  // socket, borrowed until DetachLink(). Call it before the transition to RTR:
  // packets of the peer wait in the ring until then. Peers that would connect
  // it manually are refused until it is reset. `driver` carries the link to
  // another host; null if the peer is on this one. REQUIRES: no link is
  // attached.
  void AttachLink(LinkMemory memory, LinkSide side, int socket_fd,
                  std::shared_ptr<LinkDriver> driver = nullptr);

  // Called in place of AttachLink() if the user of the peer's queue pair drives
  // it. With RTR this queue pair is then connected as if manually, but without
  // waiting for another process, because the caller holds locks.
  void ConnectManuallyAtOnce();

  // Closes this side of the link and lets go of the socket. The peer, if it
  // still sends, sees its retries exceeded. Does nothing without a link.
  void DetachLink();

  // A doorbell has arrived on the socket.
  void OnDoorbell();

  // The socket has reached its end or failed: the peer's process is gone, or it
  // has let go of the link. Delivers what the peer had sent before, then fails
  // what is outstanding with IBV_WC_RETRY_EXC_ERR and enters ERR.
  void OnPeerGone();

  // The socket of a link that was made manually has reached its end, or the
  // peer had said before that it disconnects: its program may not have read
  // that yet. Delivers what the peer had sent before; then the queue pair goes
  // on without a link, as on a NIC, and what waits for an answer runs out of
  // retries.
  void OnLinkEnd();

  // As AttachLink(), for a link that was made manually.
  void UseLink(LinkMemory memory, LinkSide side, int socket_fd,
               std::shared_ptr<LinkDriver> driver) ABSL_LOCKS_EXCLUDED(lock_);

  // For soft_faults.h, which acts on these two.
  HeldLink& held_link() { return held_link_; }
  ReceiveSource& receives() { return receives_; }

  // QueuePair:
  int Modify(const ibv_qp_attr& attributes, int mask) override;
  void Query(ibv_qp_attr& attributes,
             ibv_qp_init_attr& init_attributes) override;
  int PostSend(ibv_send_wr* wr, ibv_send_wr** bad_wr) override;
  int PostReceive(ibv_recv_wr* wr, ibv_recv_wr** bad_wr) override;
  int PostAll(ibv_send_wr* chain) override;
  bool PrepareToSleep() override;
  bool LookAgain() override;
  void AnswerBell(const WaiterBell::Ring& ring) override;
  void PollStream() override;
  void AnswerStream() override;
  void OnSendPolled(uint32_t count) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    requester().Free(count);  // Allowed on any thread, without the lock.
  }

  // DeviceQueuePair:
  // It is also called when the peer may have said something about its path.
  // While the path is down at either side, nothing is sent or taken, and
  // requests run out of retries.
  void LookAtPath() override;
  void WaitForDataPath() override { lock_.WaitForHolder(); }
  void Acknowledge() override;

  // EngineMember:
  TimePoint OnTick(TimePoint now) override;

 private:
  friend class HeldLink;  // Takes the place of this class while active.

  // Runs the protocol once.
  void Run() override;
  void RunLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);

  BiasedLock& polling_lock()
      ABSL_LOCK_RETURNED(recv_cq_.queue_pairs().polling_lock()) {
    return recv_cq_.queue_pairs().polling_lock();
  }

  LinkEnd& link() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    return exchange_.link();
  }
  Requester& requester() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    return exchange_.requester();
  }
  Responder& responder() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    return exchange_.responder();
  }

  int Post(ibv_send_wr* wr, ibv_send_wr** bad_wr)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  // The last step of Modify(); false if the transition is not legal any more.
  bool Change(ibv_qp_state from, ibv_qp_state to, const ibv_qp_attr& attributes,
              int mask, std::optional<LinkMemory>& memory)
      ABSL_LOCKS_EXCLUDED(lock_);
  void ApplyAttributes(const ibv_qp_attr& attributes, int mask)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  // Returns the memory of a link that this has detached, if any. It is to be
  // dropped after WaitForPolls().
  std::optional<LinkMemory> EnterState(ibv_qp_state state)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  bool MayReceive() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    return state_ == IBV_QPS_RTR || state_ == IBV_QPS_RTS ||
           state_ == IBV_QPS_SQD;
  }
  bool Connected() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    return receiving_ && exchange_.link().attached();
  }
  void OpenLink() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void ServeLink() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void EnterError(std::optional<ibv_event_type> event = std::nullopt)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  std::optional<LinkMemory> Reset() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  std::optional<LinkMemory> Detach() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  // Runs the protocol once; whether anything arrived.
  bool Progress() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void Transmit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  // To and from another host (connected_queue_pair_stream.cc).
  void ReceiveStream() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  bool StreamIsQuiet() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  bool SendStream(bool more) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void SleepOverStream() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void AfterTransmit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void SetDraining(bool draining) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void TellEngine() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    notes_.Update(exchange_, give_up_at_ != TimePoint::max());
  }
  void WatchIfIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  bool HasFailureOrNak() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void HandleFailureOrNak() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);

  // The path (connected_queue_pair_path.cc).

  void SetMigrationState(ibv_mig_state to) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void TellPeerOfMigration() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void Migrate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  bool TryMigrate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  // Migrates, and stops or resumes using the link, as the peer and the ports
  // demand. May take packets: caller must hold the polling lock too.
  void NotePath() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void SetPathUp(bool up) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  bool LeavePath() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);

  // Progress while nobody polls (connected_queue_pair_engine.cc).

  // Returns the value for LinkEnd::SetSleep(): for which changes the peer is to
  // ring, and whether at the bell of a waiting thread.
  uint32_t WantedSleep() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void RingForAcks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void AnswerRing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  bool ShouldSleepParked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void Sleep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void WakeUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  // Drain(), Progress() and GiveUp() take packets. Caller must hold the polling
  // lock too.
  void Drain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void AskForRoomSlow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  bool MayPark(TimePoint now, bool idle);
  void TryPark() ABSL_EXCLUSIVE_LOCKS_REQUIRED(polling_lock(), lock_);
  bool Serve(TimePoint now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  TimePoint LookAfter(TimePoint now, bool polled)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  TimePoint NextTick(TimePoint now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void PostWithoutPeer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void NotePeerState() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void NotePeerNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void NotePeerOfUnreliable() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void GiveUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);

  void WaitForPolls() ABSL_LOCKS_EXCLUDED(lock_);

  // Takes the link that is awaited, if it has come. On the engine's thread.
  void TakeAwaitedLink() ABSL_LOCKS_EXCLUDED(modify_mutex_);
  void UseAwaitedLink() ABSL_EXCLUSIVE_LOCKS_REQUIRED(modify_mutex_)
      ABSL_LOCKS_EXCLUDED(lock_);
  bool AwaitsLink() const { return finder_ != nullptr && finder_->awaits(); }

  // Held by Modify(), so that only one runs at a time. Taken before lock_.
  base::Mutex modify_mutex_;
  // Null if the queue pair cannot be connected manually; its methods are called
  // with modify_mutex_ held, but for those that LinkFinder exempts.
  std::unique_ptr<LinkFinder> finder_;
  EngineNotes notes_;
  HeldLink held_link_{*this, lock_};

  BiasedLock lock_;
  QueuePairAttributes attributes_ ABSL_GUARDED_BY(lock_);
  ibv_qp_state state_ ABSL_GUARDED_BY(lock_) = IBV_QPS_RESET;
  // MayReceive(), and the path is up at both sides.
  bool receiving_ ABSL_GUARDED_BY(lock_) = false;
  // AfterTransmit() has something to do: few queue pairs need it.
  bool checks_after_transmit_ ABSL_GUARDED_BY(lock_) = false;
  bool drained_event_wanted_ ABSL_GUARDED_BY(lock_) = false;
  PathMigration migration_ ABSL_GUARDED_BY(lock_);
  // True if the queue pair should have migrated and could not. Then
  // IBV_EVENT_PATH_MIG_ERR was raised, and is not raised again for that.
  bool migration_refused_ ABSL_GUARDED_BY(lock_) = false;
  // Whether the path is up at this side, as the peer was last told.
  bool path_up_ ABSL_GUARDED_BY(lock_) = true;
  ReceiveSource receives_ ABSL_GUARDED_BY(lock_);
  PacketExchange exchange_ ABSL_GUARDED_BY(lock_);
  DrivenLink driven_ ABSL_GUARDED_BY(lock_);
  // A poll, or a thread that waited, has found the socket ready.
  bool stream_ready_ ABSL_GUARDED_BY(lock_) = false;
  // The last pass has not sent all that the socket had room for.
  bool stream_unfinished_ ABSL_GUARDED_BY(lock_) = false;
  // The peer has been asked to ring.
  bool asleep_ ABSL_GUARDED_BY(lock_) = false;
  // The engine is going to call OnTick() by the clock.
  bool engine_looks_ ABSL_GUARDED_BY(lock_) = false;
  // Polls since the peer was asked to ring, while no queue was armed.
  uint32_t polls_asleep_ ABSL_GUARDED_BY(lock_) = 0;
  // The position of the link when a queue was last armed, and since when it has
  // been there. Kept only if there are many queue pairs.
  uint32_t armed_position_ ABSL_GUARDED_BY(lock_) = 0;
  TimePoint armed_there_since_ ABSL_GUARDED_BY(lock_) = TimePoint::min();
  // PrepareToSleep() has decided that LookAgain() is to park the queue pair.
  bool parks_ ABSL_GUARDED_BY(lock_) = false;
  // When to give up on a peer that is not open; max() while it is.
  TimePoint give_up_at_ ABSL_GUARDED_BY(lock_) = TimePoint::max();
  // An unreliable one has given up, and the peer has not become ready since.
  bool given_up_ ABSL_GUARDED_BY(lock_) = false;
  // Until when the engine serves a transfer without sleeping; see Serve().
  TimePoint serve_until_ ABSL_GUARDED_BY(lock_) = TimePoint::min();
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CONNECTED_CONNECTED_QUEUE_PAIR_H_
