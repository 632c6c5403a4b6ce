#include "transport/soft/remote/relay.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/soft/remote/tcp_socket.h"

namespace verbena::soft {
namespace {

using std::chrono::milliseconds;

// The pauses, at first and at last, between attempts to reach a host where
// nobody has the port yet.
constexpr milliseconds kRetryFirst(20);
constexpr milliseconds kRetryLast(1000);

// Turns of one relay before others have theirs.
constexpr int kTurns = 16;

}  // namespace

std::shared_ptr<LinkDriver> Relay::Connect(
    Engine& engine, LingeringRelays& lingering,
    const base::SocketAddress& source, const base::SocketAddress& destination,
    std::optional<TcpPreamble> preamble, RelayLink link) {
  std::shared_ptr<Relay> relay(new Relay(engine, lingering,
                                         preamble.has_value(), /*active=*/true,
                                         std::move(link)));
  relay->source_ = source;
  relay->destination_ = destination;
  if (preamble.has_value()) relay->preamble_ = *preamble;
  engine.Post([relay] { relay->Start(); });
  return relay;
}

std::shared_ptr<LinkDriver> Relay::Accept(Engine& engine,
                                          LingeringRelays& lingering,
                                          ForeignFd tcp, bool manual,
                                          RelayLink link) {
  std::shared_ptr<Relay> relay(
      new Relay(engine, lingering, manual, /*active=*/false, std::move(link)));
  {
    const base::MutexLock lock(relay->mutex_);
    relay->tcp_ = std::move(tcp);
  }
  engine.Post([relay] { relay->Start(); });
  return relay;
}

Relay::Relay(Engine& engine, LingeringRelays& lingering, bool manual,
             bool active, RelayLink link)
    : engine_(engine),
      lingering_(lingering),
      manual_(manual),
      active_(active),
      traffic_class_(link.traffic_class),
      socket_(std::move(link.socket)),
      side_(link.side) {
  if (link.memory.has_value()) {
    link_.Attach(*std::move(link.memory), side_, socket_.get());
  }
}

// The engine goes on until the queue pair is connected: see Serve().
bool Relay::StartDriving() {
  const base::MutexLock lock(mutex_);
  // Before that, a connection for queue pairs that are connected manually may
  // end because the peer is not there yet, and another one has to be made.
  if (stream_ == nullptr || ended_) return false;
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
  if (stream_ != nullptr) stream_->SetHurried(true);
  if (ended_) {
    CloseTcp();
  } else {
    PumpSoon();
  }
}

void Relay::Serve(bool serve, bool asleep) {
  const base::MutexLock lock(mutex_);
  if (stream_ != nullptr) stream_->SetHurried(asleep);
  if (served_ == serve) return;
  served_ = serve;
  PumpSoon();
}

// Neither rings: the queue pair that calls looks at the link next.
void Relay::Receive() {
  const base::MutexLock lock(mutex_);
  ReceiveStream();
  if (!ended_ && (tcp_ended_ || garbage_ != nullptr)) PumpSoon();
}

bool Relay::Send() {
  const base::MutexLock lock(mutex_);
  const bool moved = SendStream();
  if (!ended_ && garbage_ != nullptr) PumpSoon();
  return moved;
}

std::function<void()> Relay::Later(void (Relay::*step)()) {
  return [weak = weak_from_this(), step] {
    if (const auto self = weak.lock()) {
      const base::MutexLock lock(self->mutex_);
      ((*self).*step)();
    }
  };
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
  const int error = StartTcpConnect(source_, destination_, traffic_class_, tcp);
  if (error != 0) {
    OnConnectFailed(error);
    return;
  }
  tcp_ = ForeignFd(std::move(tcp));
  connecting_ = true;
  WatchTcp();
  engine_.SetInterest(tcp_.get(), false, true);
}

// A link that was made manually tries again until its own side leaves.
void Relay::OnConnectFailed(int error) {
  UnwatchTcp();
  CloseTcp();
  connecting_ = false;
  if (socket_ended_) {
    End();
    return;
  }
  if (!manual_) {
    // No answer otherwise: see Connect() in relay.h.
    if (error == ECONNREFUSED || error == ECONNRESET) End();
    return;
  }
  const milliseconds delay =
      std::min(kRetryFirst * (1 << std::min(failures_, 10)), kRetryLast);
  ++failures_;
  engine_.StartTimer(delay, Later(&Relay::TryConnect));
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
    if (manual_) {
      const auto* const bytes = reinterpret_cast<const std::byte*>(&preamble_);
      saying_.assign(bytes, bytes + sizeof(preamble_));
    }
  } else if (!engine_looks()) {
    // The queue pair reads; here only the end is waited for.
    pollfd waits = {.fd = tcp_.get(), .events = POLLRDHUP, .revents = 0};
    peer_closes_ = ::poll(&waits, 1, 0) == 1;
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
  if (link_.attached()) link_.SetSleep(kAwake);
  for (int i = 0; i < kTurns; ++i) {
    ReadSocket();
    bool moved = Greet();
    moved |= SendStream();
    if (engine_looks() && ReceiveStream()) moved = true;
    if (ended_) return;
    if (garbage_ != nullptr) return OnGarbage();
    if (link_.attached()) link_.RingIfNeeded();
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
  if (!link_.attached() || driven_) return false;
  link_.SetSleep(kSleepForAcks);
  LinkEnd::FenceAfterSleep();
  return Greet() || SendStream() ||
         (input_blocked_.load(std::memory_order_relaxed) && ReceiveStream());
}

// Waits for what can move: messages if none waits to be sent, bytes if the ring
// has room, room in the socket if bytes wait for it.
void Relay::UpdateInterest() {
  if (!socket_ended_) {
    engine_.SetInterest(socket_.get(), !message_.has_value() && !socket_paused_,
                        false);
  }
  if (!tcp_.valid() || connecting_) return;
  const bool output = !saying_.empty() || output_blocked();
  const bool input = !input_blocked() || finishing_;
  // With nothing to wait for it must not be watched at all: a connection that
  // is broken would call again and again.
  if (engine_looks() && !input && !output) {
    UnwatchTcp();
    return;
  }
  WatchTcp();
  if (engine_looks()) {
    engine_.SetInterest(tcp_.get(), input, output);
  } else {
    engine_.SetInterestInEnd(tcp_.get());
  }
}

// The relay's own side has left. What it left behind is still to be sent.
void Relay::OnSocketEnded() {
  if (socket_ended_) return;
  socket_ended_ = true;
  engine_.Unwatch(socket_.get());
  const std::function<void()> end = Later(&Relay::End);
  lingering_name_ = lingering_.Add(end);
  if (finishing_) lingering_.NoteSent(lingering_name_);
  engine_.StartTimer(kRelayLingerMax, end);
}

// After a turn in which nothing moved: acts on the ends of the two sides.
void Relay::HandleEnds() {
  if (tcp_ended_) {
    OnTcpLost();
    return;
  }
  if (!tcp_.valid() || connecting_) {
    if (socket_ended_) End();
    return;
  }
  if (finishing_) return;
  // A disconnection is the end of the stream. Peers of another kind are told of
  // it by nothing else, and some program of the others may wait for nothing
  // else.
  const bool leaves =
      disconnects_ ||
      (stream_ != nullptr && !terms_.extended &&
       (message_.has_value() || OwnNews().state == kLinkClosed));
  if ((socket_ended_ || leaves || rejected_) && saying_.empty() &&
      !output_blocked()) {
    Finish();
  }
}

// All has been sent. The connection ends when the peer closes its side too:
// then the peer has it all.
void Relay::Finish() {
  finishing_ = true;
  input_blocked_.store(false, std::memory_order_relaxed);
  message_.reset();
  ::shutdown(tcp_.get(), SHUT_WR);
  if (!socket_ended_) return;
  stream_.reset();
  link_ = LinkEnd();
  socket_.Reset();
  lingering_.NoteSent(lingering_name_);
}

void Relay::OnTcpLost() {
  if (!manual_ || !active_ || stream_ != nullptr || socket_ended_) {
    End();
    return;
  }
  // The other host has no queue pair of that number yet. Nothing but the
  // greeting has been sent.
  tcp_ended_ = said_ = heard_ = false;
  news_told_ = peer_news_ = LinkNews();
  saying_.clear();
  hearing_.clear();
  OnConnectFailed(ECONNREFUSED);
}

// A host whose first bytes are no greeting is no device: some other program has
// the port there. The connection manager of this process is told so.
void Relay::OnGarbage() {
  lingering_.Warn(absl::StrCat("the software device ends a connection with ",
                               TcpPeerAddress(tcp_.get()).ToString(), ": ",
                               garbage_));
  if (active_ && !manual_ && stream_ == nullptr && !socket_ended_) {
    SendCmMessage(socket_.get(), {.type = CmMessageType::kReject,
                                  .reject_reason = kForeignPort});
  }
  End();
}

// Only a connection that another process has passed to this one may be slow to
// close.
void Relay::CloseTcp() {
  if (manual_ && !active_) {
    tcp_.Reset();
  } else {
    tcp_.Release().Reset();
  }
}

void Relay::End() {
  if (ended_) return;
  ended_ = true;
  // The callbacks that are dropped here may hold the last references.
  const std::shared_ptr<Relay> self = shared_from_this();
  UnwatchTcp();
  if (!socket_ended_) engine_.Unwatch(socket_.get());
  stream_.reset();
  // Bytes that are still in the sockets are not waited for, because the other
  // ends may never read them.
  if (driven_) {
    ::shutdown(tcp_.get(), SHUT_RDWR);
  } else {
    CloseTcp();
  }
  input_blocked_.store(true, std::memory_order_relaxed);
  output_blocked_.store(false, std::memory_order_relaxed);
  link_ = LinkEnd();
  socket_.Reset();
  lingering_.Remove(lingering_name_);
}

}  // namespace verbena::soft
