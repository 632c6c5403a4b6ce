// Carries a link to another host.

#ifndef VERBENA_TRANSPORT_SOFT_REMOTE_RELAY_H_
#define VERBENA_TRANSPORT_SOFT_REMOTE_RELAY_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/base/socket_address.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/base/foreign_fd.h"
#include "transport/soft/link/cm_message.h"
#include "transport/soft/link/link.h"
#include "transport/soft/link/link_driver.h"
#include "transport/soft/link/link_end.h"
#include "transport/soft/remote/lingering_relays.h"
#include "transport/soft/remote/relay_buffer.h"
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
};

// Plays the peer to a queue pair of this process, over an ordinary link, and
// moves what happens there over a TCP connection to another relay, which plays
// this queue pair to its peer. So queue pairs know nothing of TCP.
//
// A relay holds no more than one batch of bytes (kTcpBatchBytes) each way
// beyond the link's ring and the socket's buffers. When the ring is full it
// stops reading, and when the socket is full it leaves packets in the ring.
// Bytes from the other host are checked before any are stored. A peer that
// breaks the framing loses the connection.
//
// A relay owns itself and runs on the thread of `engine`, which outlives it,
// while its queue pair does not drive it. It ends when either side does; the
// other side learns of that by the end of its socket. Everything that was sent
// before the end arrives before it. For that the relay lingers when its own
// side has closed the link and the socket; nobody waits for it.
class Relay final : public LinkDriver,
                    public std::enable_shared_from_this<Relay> {
 public:
  // Connects to `destination`, from `source` unless that is empty, and says
  // `preamble`. For queue pairs that are connected manually it tries until the
  // other end of the link's socket is closed. For the connection manager it
  // tries as long as a host that has lost the owner of its port needs to find
  // another; then it closes the socket, which means that nobody listens. If the
  // host does not answer, the socket stays open: the connection manager has a
  // deadline of its own.
  static std::shared_ptr<LinkDriver> Connect(
      Engine& engine, LingeringRelays& lingering,
      const base::SocketAddress& source, const base::SocketAddress& destination,
      const TcpPreamble& preamble, RelayLink link);

  // Goes on with `tcp`, whose preamble has been read. If `link` has no memory,
  // the relay makes it when the request of the connection manager comes.
  static std::shared_ptr<LinkDriver> Accept(Engine& engine,
                                            LingeringRelays& lingering,
                                            ForeignFd tcp,
                                            const TcpPreamble& preamble,
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
  void Serve(bool serve) override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  enum class Parsed { kFrame, kIncomplete, kNoRoom, kGarbage };

  Relay(Engine& engine, LingeringRelays& lingering, const TcpPreamble& preamble,
        RelayLink link);

  bool manual() const { return preamble_.purpose == TcpPurpose::kManual; }

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
  bool SleepUnlessMoving() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UpdateInterest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnSocketEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HandleEnds() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnTcpLost() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the engine's thread is to look at the TCP socket.
  bool engine_looks() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !driven_ || served_ || tcp_ended_;
  }

  // Sending (relay_send.cc).
  void ReadSocket() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool SendBatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool SendRest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasNews() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t AppendPackets(std::byte* to, size_t room)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  LinkNews OwnNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t AppendNews(std::byte* to, const LinkNews& news, bool drained)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t AppendFrame(std::byte* to, TcpFrame frame, const void* payload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool NoteOwnProgress() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Receiving (relay_receive.cc).
  bool ReceiveBatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Parsed ParseFrame(const std::byte* bytes, size_t length, size_t& used)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Parsed TakeFrame(const TcpFrame& frame, const std::byte* payload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Parsed TakePacket(const TcpFrame& frame, const std::byte* payload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Parsed TakeState(const TcpFrame& frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Parsed TakeCmMessage(const std::byte* payload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool CompleteRequest(CmMessage& request, base::UniqueFd& memory_fd)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnGarbage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Engine& engine_;
  LingeringRelays& lingering_;
  const TcpPreamble preamble_;
  // Set before Start().
  bool active_ = false;
  // The addresses that an active relay connects from and to.
  base::SocketAddress source_;
  base::SocketAddress destination_;

  // Taken after the lock of a queue pair.
  base::Mutex mutex_;
  // The queue pair moves the bytes, from StartDriving() to StopDriving(), and
  // whether the engine's thread moves them too.
  bool driven_ ABSL_GUARDED_BY(mutex_) = false;
  bool served_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> input_blocked_{false};
  std::atomic<bool> output_blocked_{false};
  // Its name in lingering_; 0 if not there.
  uint64_t lingering_name_ ABSL_GUARDED_BY(mutex_) = 0;

  // The TCP connection and the link's socket, each until it has ended.
  ForeignFd tcp_ ABSL_GUARDED_BY(mutex_);
  bool tcp_watched_ ABSL_GUARDED_BY(mutex_) = false;
  bool connecting_ ABSL_GUARDED_BY(mutex_) = false;
  bool tcp_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool garbage_ ABSL_GUARDED_BY(mutex_) = false;  // Received; to be acted on.
  // We have sent our end, and wait for the peer's.
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  base::UniqueFd socket_ ABSL_GUARDED_BY(mutex_);
  bool socket_ended_ ABSL_GUARDED_BY(mutex_) = false;
  const LinkSide side_;
  LinkEnd link_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;

  // Outgoing.
  bool preamble_sent_ ABSL_GUARDED_BY(mutex_) = false;
  uint32_t sent_frames_ ABSL_GUARDED_BY(mutex_) = 0;
  // Requests that the queue pair of this process has executed, and how many of
  // them the peer was told of.
  uint32_t executed_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t executed_told_ ABSL_GUARDED_BY(mutex_) = 0;
  LinkNews news_told_ ABSL_GUARDED_BY(mutex_);
  // To be sent behind what is in the ring.
  std::optional<CmMessage> message_ ABSL_GUARDED_BY(mutex_);
  // Bytes that the TCP socket did not take.
  std::vector<std::byte> unsent_ ABSL_GUARDED_BY(mutex_);
  RelayBuffer buffer_ ABSL_GUARDED_BY(mutex_);

  // Incoming.
  uint32_t received_frames_ ABSL_GUARDED_BY(mutex_) = 0;
  LinkNews peer_news_ ABSL_GUARDED_BY(mutex_);
  // The next frame finds no room in the ring.
  bool no_room_ ABSL_GUARDED_BY(mutex_) = false;
  // Less than kTcpBatchBytes.
  std::vector<std::byte> unparsed_ ABSL_GUARDED_BY(mutex_);

  // Attempts to connect that have failed in a row.
  int failures_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_REMOTE_RELAY_H_
