#include "transport/soft/remote/relay.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "transport/soft/remote/tcp_socket.h"

namespace verbena::soft {
namespace {

using std::chrono::milliseconds;

// The pauses, at first and at last, between attempts to reach a host where
// nobody has the port yet.
constexpr milliseconds kRetryFirst(20);
constexpr milliseconds kRetryLast(1000);

// Refusals in a row that mean that nobody listens, and not that the port is
// about to change hands: together 300 ms.
constexpr int kRefusalsMax = 5;

// Turns of one relay before others have theirs.
constexpr int kTurns = 16;

}  // namespace

std::shared_ptr<LinkDriver> Relay::Connect(
    Engine& engine, LingeringRelays& lingering,
    const base::SocketAddress& source, const base::SocketAddress& destination,
    const TcpPreamble& preamble, RelayLink link) {
  std::shared_ptr<Relay> relay(
      new Relay(engine, lingering, preamble, std::move(link)));
  relay->active_ = true;
  relay->source_ = source;
  relay->destination_ = destination;
  engine.Post([relay] { relay->Start(); });
  return relay;
}

std::shared_ptr<LinkDriver> Relay::Accept(Engine& engine,
                                          LingeringRelays& lingering,
                                          ForeignFd tcp,
                                          const TcpPreamble& preamble,
                                          RelayLink link) {
  std::shared_ptr<Relay> relay(
      new Relay(engine, lingering, preamble, std::move(link)));
  {
    const base::MutexLock lock(relay->mutex_);
    relay->tcp_ = std::move(tcp);
  }
  engine.Post([relay] { relay->Start(); });
  return relay;
}

Relay::Relay(Engine& engine, LingeringRelays& lingering,
             const TcpPreamble& preamble, RelayLink link)
    : engine_(engine),
      lingering_(lingering),
      preamble_(preamble),
      socket_(std::move(link.socket)),
      side_(link.side) {
  if (link.memory.has_value()) {
    link_.Attach(*std::move(link.memory), side_, socket_.get());
  }
}

// The engine goes on until the queue pair is connected: see Serve().
bool Relay::StartDriving() {
  const base::MutexLock lock(mutex_);
  if (!tcp_.valid() || connecting_ || ended_) return false;
  // The other host may have no queue pair of that number yet, and end the
  // connection, so that another one has to be made.
  if (manual() && peer_news_.state == kLinkNotReady) return false;
  driven_ = served_ = true;
  link_.SetSleep(kAwake);
  PumpSoon();
  return true;
}

// Only now the socket may be closed: the queue pair has watched it until here.
void Relay::StopDriving() {
  const base::MutexLock lock(mutex_);
  if (!driven_) return;
  driven_ = served_ = false;
  if (ended_) {
    tcp_.Reset();
  } else {
    PumpSoon();
  }
}

void Relay::Serve(bool serve) {
  const base::MutexLock lock(mutex_);
  if (served_ == serve) return;
  served_ = serve;
  PumpSoon();
}

// A thread that finds the engine at work leaves it the rest. None of these
// rings: the queue pair that calls looks at the link next.
void Relay::Receive() {
  if (!mutex_.try_lock()) return;
  if (!ended_) {
    ReceiveBatch();
    if (tcp_ended_ || garbage_) PumpSoon();
  }
  mutex_.unlock();
}

bool Relay::Send() {
  if (!mutex_.try_lock()) return false;
  const bool moved = !ended_ && HasNews() && SendBatch();
  mutex_.unlock();
  return moved;
}

void Relay::PumpSoon() {
  engine_.Post([self = shared_from_this()] {
    const base::MutexLock lock(self->mutex_);
    self->Pump();
  });
}

void Relay::Start() {
  const base::MutexLock lock(mutex_);
  engine_.WatchWhenPossible(
      socket_.get(), [self = shared_from_this()] { self->OnSocketReady(); });
  if (active_) {
    TryConnect();
  } else {
    WatchTcp();
    Pump();
  }
}

void Relay::WatchTcp() {
  if (tcp_watched_) return;
  tcp_watched_ = true;
  engine_.WatchWhenPossible(
      tcp_.get(), [self = shared_from_this()] { self->OnTcpReady(); });
}

void Relay::UnwatchTcp() {
  if (tcp_watched_) engine_.Unwatch(tcp_.get());
  tcp_watched_ = false;
}

void Relay::TryConnect() {
  // A timer or a task that was started before the end may still come.
  if (ended_) return;
  // The relay's own side has left before the other host was reached: nobody
  // waits for it.
  if (socket_ended_ ||
      (link_.attached() && link_.peer_state() == kLinkClosed)) {
    End();
    return;
  }
  base::UniqueFd tcp;
  const int error = StartTcpConnect(source_, destination_, tcp);
  if (error != 0) {
    OnConnectFailed(error);
    return;
  }
  tcp_ = ForeignFd(std::move(tcp));
  connecting_ = true;
  WatchTcp();
  engine_.SetInterest(tcp_.get(), false, true);
}

// A link that was made manually tries again until its own side leaves. A link
// of the connection manager tries again if it was refused, and a few times
// only.
void Relay::OnConnectFailed(int error) {
  UnwatchTcp();
  tcp_.Reset();
  connecting_ = false;
  if (socket_ended_) {
    End();
    return;
  }
  if (!manual()) {
    if (error != ECONNREFUSED) return;  // No answer: see Connect() in relay.h.
    if (failures_ + 1 >= kRefusalsMax) {
      End();
      return;
    }
  }
  const milliseconds delay =
      std::min(kRetryFirst * (1 << std::min(failures_, 10)), kRetryLast);
  ++failures_;
  engine_.StartTimer(delay, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      const base::MutexLock lock(self->mutex_);
      self->TryConnect();
    }
  });
}

void Relay::OnTcpReady() {
  const base::MutexLock lock(mutex_);
  if (ended_) return;
  if (connecting_) {
    const int error = TcpConnectResult(tcp_.get());
    if (error != 0) {
      OnConnectFailed(error);
      return;
    }
    if (TcpPeerAddress(tcp_.get()).empty()) return;  // Not connected yet.
    connecting_ = false;
  }
  Pump();
}

void Relay::OnSocketReady() {
  const base::MutexLock lock(mutex_);
  if (ended_) return;
  if (message_.has_value()) {
    // No message is read while one waits to be sent, so the socket is watched
    // for its end alone.
    pollfd poll_for = {.fd = socket_.get(), .events = 0, .revents = 0};
    if (::poll(&poll_for, 1, 0) == 1) OnSocketEnded();
  }
  Pump();
}

// Moves what there is to move in both directions. While it does, the queue pair
// need not ring; when nothing moves any more, it is asked to. A queue pair that
// drives the relay never rings, because it calls Send().
void Relay::Pump() {
  if (ended_) return;
  if (garbage_) return OnGarbage();
  if (link_.attached()) link_.SetSleep(kAwake);
  for (int i = 0; i < kTurns; ++i) {
    ReadSocket();
    bool moved = SendBatch();
    if (engine_looks() && ReceiveBatch()) moved = true;
    if (link_.attached()) link_.RingIfNeeded();
    if (garbage_) return OnGarbage();
    if (!moved && !SleepUnlessMoving()) {
      HandleEnds();
      if (!ended_) UpdateInterest();
      return;
    }
  }
  PumpSoon();
}

// The queue pair rings from now on; what it sent before it knew is found here.
// Returns whether anything was.
bool Relay::SleepUnlessMoving() {
  if (!link_.attached()) return false;
  if (!driven_) {
    link_.SetSleep(kSleepForAcks);
    LinkEnd::FenceAfterSleep();
  }
  if (SendBatch()) return true;
  return engine_looks() && no_room_ && ReceiveBatch();
}

// Waits for what can move: messages if none waits to be sent, bytes if the ring
// has room, room in the socket if bytes wait for it.
void Relay::UpdateInterest() {
  if (!socket_ended_) {
    engine_.SetInterest(socket_.get(), !message_.has_value(), false);
  }
  if (!tcp_.valid() || connecting_) return;
  // With nothing to wait for it must not be watched at all: a connection that
  // is broken would call again and again.
  if (!engine_looks() || (no_room_ && unsent_.empty())) {
    UnwatchTcp();
    return;
  }
  WatchTcp();
  engine_.SetInterest(tcp_.get(), !no_room_, !unsent_.empty());
}

// The relay's own side has left. What it left behind is still to be sent.
void Relay::OnSocketEnded() {
  if (socket_ended_) return;
  socket_ended_ = true;
  engine_.Unwatch(socket_.get());
  const auto end = [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      const base::MutexLock lock(self->mutex_);
      self->End();
    }
  };
  lingering_name_ = lingering_.Add(end);
  engine_.StartTimer(kRelayLingerMax, end);
}

// After a turn in which nothing moved: acts on the ends of the two sides.
void Relay::HandleEnds() {
  if (tcp_ended_) {
    // Frames that came before the end may still wait for room in the ring.
    if (socket_ended_ || !no_room_) OnTcpLost();
    return;
  }
  if (!socket_ended_ || finishing_) return;
  if (!tcp_.valid() || connecting_) {
    End();
    return;
  }
  if (!unsent_.empty()) return;
  // All has been sent. The connection ends when the peer closes its side too:
  // then the peer has it all.
  finishing_ = true;
  no_room_ = false;
  link_ = LinkEnd();
  socket_.Reset();
  ::shutdown(tcp_.get(), SHUT_WR);
  lingering_.NoteSent(lingering_name_);
}

void Relay::OnTcpLost() {
  const bool may_try_again = manual() && active_ &&
                             peer_news_.state == kLinkNotReady &&
                             !socket_ended_;
  if (!may_try_again) {
    End();
    return;
  }
  // The other host has no queue pair of that number yet. All that was sent can
  // be sent again: packets are not sent before the peer has said that it is
  // ready.
  tcp_ended_ = preamble_sent_ = no_room_ = false;
  sent_frames_ = received_frames_ = executed_told_ = 0;
  news_told_ = LinkNews();
  unsent_.clear();
  unparsed_.clear();
  OnConnectFailed(ECONNREFUSED);
}

void Relay::End() {
  if (ended_) return;
  ended_ = true;
  // The callbacks that are dropped here may hold the last references.
  const std::shared_ptr<Relay> self = shared_from_this();
  UnwatchTcp();
  if (!socket_ended_) engine_.Unwatch(socket_.get());
  // Bytes that are still in the sockets are not waited for, because the other
  // ends may never read them.
  if (driven_) {
    ::shutdown(tcp_.get(), SHUT_RDWR);
  } else {
    tcp_.Reset();
  }
  input_blocked_.store(true, std::memory_order_relaxed);
  output_blocked_.store(false, std::memory_order_relaxed);
  link_ = LinkEnd();
  socket_.Reset();
  lingering_.Remove(lingering_name_);
}

}  // namespace verbena::soft
