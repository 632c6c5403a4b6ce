// One connected queue pair of the software device, reliable (RC) or not (UC).

#ifndef VERBENA_TRANSPORT_SOFT_CONNECTED_CONNECTED_QUEUE_PAIR_H_
#define VERBENA_TRANSPORT_SOFT_CONNECTED_CONNECTED_QUEUE_PAIR_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <mutex>
#include <optional>

#include "transport/soft/base/biased_lock.h"
#include "transport/soft/connected/engine_notes.h"
#include "transport/soft/connected/held_link.h"
#include "transport/soft/connected/manual_connection.h"
#include "transport/soft/connected/packet_exchange.h"
#include "transport/soft/connected/path_migration.h"
#include "transport/soft/connected/queue_pair_attributes.h"
#include "transport/soft/device/manual_link.h"
#include "transport/soft/link/link.h"
#include "transport/soft/link/link_end.h"
#include "transport/soft/queues/queue_pair.h"

namespace verbena::soft {

// A queue pair: its attributes and state, a requester and a responder, and the
// link that joins it to its peer.
//
// Whoever polls one of its completion queues runs its protocol; when nobody
// does, the engine's thread does, woken by the peer's doorbell.
//
// What goes wrong on the wire is reported by completions, by asynchronous
// events and by the state ERR.
class ConnectedQueuePair final : public QueuePair {
 public:
  // REQUIRES: CheckInitAttributes() accepts the attributes, and the type is RC
  // or UC. Its number is 0 when the device has none left.
  ConnectedQueuePair(SoftDevice& device, ProtectionDomain& pd,
                     const ibv_qp_init_attr& attributes);
  ~ConnectedQueuePair() override;

  // The queue pair behind a handle of this device. REQUIRES: its type is RC or
  // UC.
  static ConnectedQueuePair* From(ibv_qp* qp) {
    return static_cast<ConnectedQueuePair*>(qp);
  }

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

  // The same for a link that was made manually: the queue pair goes on without
  // one.
  void OnManualLinkEnd();

  // Attaches `link`, and does what it calls for from now on. It must end before
  // the queue pair does.
  void StartManualLink(ManualLink& link);

  // Faults for tests; see soft_faults.h.
  HeldLink& held_link() { return held_link_; }
  void ForceReceiverNotReady(uint32_t times);

  // QueuePair:
  int Modify(const ibv_qp_attr& attributes, int mask) override;
  void Query(ibv_qp_attr& attributes,
             ibv_qp_init_attr& init_attributes) override;
  int PostSend(ibv_send_wr* wr, ibv_send_wr** bad_wr) override;
  int PostReceive(ibv_recv_wr* wr, ibv_recv_wr** bad_wr) override;
  int PostAll(ibv_send_wr* chain) override;
  bool PrepareToSleep() override;
  void LookAgain() override;
  void AnswerBell(const WaiterBell::Ring& ring) override;
  void OnSendPolled(uint32_t count) override { requester().Free(count); }

  // DeviceQueuePair:
  // Also when the peer may have said something about its path. While a path is
  // down, nothing is sent or taken, and requests run out of retries.
  void LookAtPath() override;
  void WaitForDataPath() override { lock_.WaitForHolder(); }
  void Acknowledge() override;

  // EngineMember:
  TimePoint OnTick(TimePoint now) override;

 private:
  friend class HeldLink;  // It stands in for this class while it is active.

  // Runs the protocol once.
  void Run() override;

  LinkEnd& link() { return exchange_.link(); }
  Requester& requester() { return exchange_.requester(); }
  Responder& responder() { return exchange_.responder(); }
  BiasedLock& polling_lock() { return recv_cq_.queue_pairs().polling_lock(); }

  // Everything below until the fields REQUIRES lock_ to be held.
  int Post(ibv_send_wr* wr, ibv_send_wr** bad_wr);
  void ApplyAttributes(const ibv_qp_attr& attributes, int mask);
  // What it returns is to be dropped after WaitForPolls().
  std::optional<LinkMemory> EnterState(ibv_qp_state state);
  bool MayReceive() const {
    return state_ == IBV_QPS_RTR || state_ == IBV_QPS_RTS ||
           state_ == IBV_QPS_SQD;
  }
  bool Connected() const { return receiving_ && exchange_.link().attached(); }
  void OpenLink();
  void ServeLink();
  void EnterError(std::optional<ibv_event_type> event = std::nullopt);
  std::optional<LinkMemory> Reset();
  std::optional<LinkMemory> Detach();
  // Runs the protocol once; whether anything arrived.
  bool Progress();
  void Transmit();
  void AfterTransmit();
  void SetDraining(bool draining);
  void TellEngine() {
    notes_.Update(exchange_, give_up_at_ != TimePoint::max());
  }
  void WatchIfIdle();
  bool HasFailureOrNak() const;
  void HandleFailureOrNak();

  // The path (connected_queue_pair_path.cc).

  void SetMigrationState(ibv_mig_state to);
  void TellPeerOfMigration();
  void Migrate();
  bool TryMigrate();
  // Does as the peer and the ports demand. Takes packets: with the polling lock
  // held.
  void NotePath();
  void SetPathUp(bool up);
  bool LeavePath();

  // Without a poll (connected_queue_pair_engine.cc).

  // What the peer is to ring for, and how.
  uint32_t WantedSleep() const;
  void RingForAcks();
  void AnswerRing();
  void Sleep();
  void WakeUp();
  // Takes packets: with the polling lock held, as Progress() and GiveUp().
  void Drain();
  void AskForRoomSlow();
  bool MayPark(TimePoint now, bool idle);
  void TryPark();
  bool Serve(TimePoint now);
  TimePoint LookAfter(TimePoint now, bool polled);
  TimePoint NextTick(TimePoint now);
  void PostWithoutPeer();
  void NotePeerState();
  void NotePeerNow();
  void NotePeerOfUnreliable();
  void GiveUp();

  void WaitForPolls();  // Not with lock_ held.

  // Takes the link that is awaited, if it has come. On the engine's thread.
  void TakeAwaitedLink();

  std::mutex modify_mutex_;  // One Modify() at a time; taken before lock_.
  ManualConnection manual_;  // Protected by modify_mutex_, but for awaits().
  EngineNotes notes_;
  HeldLink held_link_{*this};

  BiasedLock lock_;
  // State below is protected by lock_.
  QueuePairAttributes attributes_;
  ibv_qp_state state_ = IBV_QPS_RESET;
  // MayReceive(), and the path is up at both sides.
  bool receiving_ = false;
  // AfterTransmit() has something to do: few queue pairs need it.
  bool checks_after_transmit_ = false;
  bool drained_event_wanted_ = false;
  PathMigration migration_;
  bool migration_refused_ = false;  // There was an event about it.
  bool path_up_ = true;             // At this side, as the peer knows.
  PacketExchange exchange_;
  bool asleep_ = false;        // The peer has been asked to ring.
  uint32_t polls_asleep_ = 0;  // Since then, with no queue armed.
  // When to give up on a peer that is not open; max() while it is.
  TimePoint give_up_at_ = TimePoint::max();
  // Until when the engine serves a transfer without sleeping; see Serve().
  TimePoint serve_until_ = TimePoint::min();
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CONNECTED_CONNECTED_QUEUE_PAIR_H_
