// Carries a link to another host.

#ifndef VERBENA_TRANSPORT_SOFT_REMOTE_RELAY_H_
#define VERBENA_TRANSPORT_SOFT_REMOTE_RELAY_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/base/socket_address.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/base/foreign_fd.h"
#include "transport/soft/iwarp/iwarp_stream.h"
#include "transport/soft/iwarp/mpa.h"
#include "transport/soft/link/cm_message.h"
#include "transport/soft/link/link.h"
#include "transport/soft/link/link_driver.h"
#include "transport/soft/link/link_end.h"
#include "transport/soft/remote/lingering_relays.h"
#include "transport/soft/remote/tcp_protocol.h"

namespace verbena::soft {

// How long a relay lives on when its own side has left: as long as a host may
// be silent. A peer that reads needs far less.
inline constexpr std::chrono::seconds kRelayLingerMax(10);

// A relay's end of a link: the memory, the side that the relay plays, and the
// relay's end of the socket of doorbells and of the connection manager.
struct RelayLink {
  // None yet for the connection manager: it comes with the CONNECT_REQUEST.
  std::optional<LinkMemory> memory;
  LinkSide side = LinkSide::kSecond;
  base::UniqueFd socket;
  uint8_t traffic_class = 0;  // For Relay::Connect().
};

// Plays the peer to a queue pair of this process, over an ordinary link, and
// speaks iWARP with the real peer over a TCP connection. The connection manager
// of this process talks to it by the link's socket, as to that of any peer.
//
// A relay begins by a greeting: the frames of MPA, by which two connection
// managers exchange CONNECT_REQUEST and CONNECT_REPLY, or a preamble between
// queue pairs that are connected manually. Then an IwarpStream carries the
// link. A peer of another kind (siw, a NIC) says nothing else: the connection
// counts as ready with the reply, and a disconnection is the end of the stream.
//
// A relay owns itself and runs on the thread of `engine`, which outlives it,
// while its queue pair does not drive it. It ends when either side does; the
// other side learns of that by the end of its socket. Everything that was sent
// before the end arrives before it. For that the relay lingers when its own
// side has closed the link and the socket; nobody waits for it.
class Relay final : public LinkDriver,
                    public std::enable_shared_from_this<Relay> {
 public:
  // Connects to `destination`, from `source` unless that is empty. A refusal
  // closes the link's socket, which means that nobody listens. If the host does
  // not answer, the socket stays open: the connection manager has a deadline of
  // its own. With a preamble, for queue pairs that are connected manually, it
  // tries until the other end of the link's socket is closed.
  static std::shared_ptr<LinkDriver> Connect(
      Engine& engine, LingeringRelays& lingering,
      const base::SocketAddress& source, const base::SocketAddress& destination,
      std::optional<TcpPreamble> preamble, RelayLink link);

  // Goes on with `tcp`, whose preamble has been read if the queue pair is
  // connected manually. If `link` has no memory, the relay makes it when the
  // request of the connection manager comes.
  static std::shared_ptr<LinkDriver> Accept(Engine& engine,
                                            LingeringRelays& lingering,
                                            ForeignFd tcp, bool manual,
                                            RelayLink link);

  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // LinkDriver:
  int fd() const override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return tcp_.get();  // Constant while driven_.
  }
  bool StartDriving() override ABSL_LOCKS_EXCLUDED(mutex_);
  void StopDriving() override ABSL_LOCKS_EXCLUDED(mutex_);
  void Receive() override ABSL_LOCKS_EXCLUDED(mutex_);
  bool Send() override ABSL_LOCKS_EXCLUDED(mutex_);
  bool input_blocked() const override {
    return input_blocked_.load(std::memory_order_relaxed);
  }
  bool output_blocked() const override {
    return output_blocked_.load(std::memory_order_relaxed);
  }
  bool owes_peer() const override {
    return owes_peer_.load(std::memory_order_relaxed);
  }
  void Serve(bool serve, bool asleep) override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Relay(Engine& engine, LingeringRelays& lingering, bool manual, bool active,
        RelayLink link);

  // The life of the connection (relay.cc), on the engine's thread.
  void Start() ABSL_LOCKS_EXCLUDED(mutex_);
  void TryConnect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnConnectFailed(int error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnTcpReady() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnSocketReady() ABSL_LOCKS_EXCLUDED(mutex_);
  void WatchTcp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UnwatchTcp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Pump() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PumpSoon();
  // Takes the lock and calls `step`, if the relay is still there.
  std::function<void()> Later(void (Relay::*step)());
  bool SleepUnlessMoving() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UpdateInterest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnSocketEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HandleEnds() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnTcpLost() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnGarbage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseTcp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the engine's thread is to look at the TCP socket. A queue pair that
  // drives the relay may be waited for by nobody, so what the connection
  // manager waits for is not left to it.
  bool engine_looks() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !driven_ || served_ || tcp_ended_ || awaits_ready_ || peer_closes_;
  }

  // The greeting (relay_greeting.cc).
  bool Greet() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SayGreeting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SayMpa(const CmMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool SendGreeting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HearGreeting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnMpa(const MpaFrame& frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnState() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PassUp(const CmMessage& message, int memory_fd = -1)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MakeMemory(CmMessage& request, base::UniqueFd& memory_fd)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartStream() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The stream (relay_stream.cc).
  void ReadSocket() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ResumeSocket() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnMessage(CmReceived& received) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  LinkNews OwnNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SayNews() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool SendStream() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ReceiveStream() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool DropInput() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteStream() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TakeState(uint64_t word) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TakeCmMessage(const StreamMessage& said)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Engine& engine_;
  LingeringRelays& lingering_;
  const bool manual_;
  const bool active_;
  const uint8_t traffic_class_;
  // Set before Start(): the addresses that an active relay connects from and
  // to, and what it says first.
  base::SocketAddress source_;
  base::SocketAddress destination_;
  TcpPreamble preamble_;

  // Taken after the lock of a queue pair.
  base::Mutex mutex_;
  // The queue pair moves the bytes, from StartDriving() to StopDriving(), and
  // whether the engine's thread moves them too.
  bool driven_ ABSL_GUARDED_BY(mutex_) = false;
  bool served_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> input_blocked_{false};
  std::atomic<bool> output_blocked_{false};
  std::atomic<bool> owes_peer_{false};
  // Its name in lingering_; 0 if not there.
  uint64_t lingering_name_ ABSL_GUARDED_BY(mutex_) = 0;

  // The TCP connection and the link's socket, each until it has ended.
  ForeignFd tcp_ ABSL_GUARDED_BY(mutex_);
  bool tcp_watched_ ABSL_GUARDED_BY(mutex_) = false;
  bool connecting_ ABSL_GUARDED_BY(mutex_) = false;
  bool tcp_ended_ ABSL_GUARDED_BY(mutex_) = false;
  // Says what the peer, or the queue pair, has said that no correct one says;
  // null if there is nothing. The engine's thread acts on it.
  const char* garbage_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // We have sent our end, and wait for the peer's.
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  base::UniqueFd socket_ ABSL_GUARDED_BY(mutex_);
  bool socket_ended_ ABSL_GUARDED_BY(mutex_) = false;
  // A message waits in the socket until there is room for its descriptor.
  bool socket_paused_ ABSL_GUARDED_BY(mutex_) = false;
  const LinkSide side_;
  LinkEnd link_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  // Attempts to connect that have failed in a row.
  int failures_ ABSL_GUARDED_BY(mutex_) = 0;

  // The greeting: bytes still to be sent and those received, and whether our
  // part has been said and the peer's heard.
  std::vector<std::byte> saying_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::byte> hearing_ ABSL_GUARDED_BY(mutex_);
  bool said_ ABSL_GUARDED_BY(mutex_) = false;
  bool heard_ ABSL_GUARDED_BY(mutex_) = false;
  bool rejected_ ABSL_GUARDED_BY(mutex_) = false;
  IwarpStream::Terms terms_ ABSL_GUARDED_BY(mutex_);

  // The peer's connection manager has yet to say that it is ready.
  bool awaits_ready_ ABSL_GUARDED_BY(mutex_) = false;
  // The peer has closed its side; what came before is still to be read.
  bool peer_closes_ ABSL_GUARDED_BY(mutex_) = false;
  // A disconnection has been said, behind which nothing goes any more.
  bool disconnects_ ABSL_GUARDED_BY(mutex_) = false;

  std::unique_ptr<IwarpStream> stream_ ABSL_GUARDED_BY(mutex_);
  LinkNews news_told_ ABSL_GUARDED_BY(mutex_);
  LinkNews peer_news_ ABSL_GUARDED_BY(mutex_);
  // A message of the connection manager, to be sent behind what is in the ring.
  std::optional<CmMessage> message_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_REMOTE_RELAY_H_
