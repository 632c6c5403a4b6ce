// Carries a link to another host.

#ifndef VERBENA_TRANSPORT_SOFT_REMOTE_RELAY_H_
#define VERBENA_TRANSPORT_SOFT_REMOTE_RELAY_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "transport/base/socket_address.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/base/foreign_fd.h"
#include "transport/soft/link/cm_message.h"
#include "transport/soft/link/link.h"
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
// A relay owns itself and runs on the thread of `engine`, which outlives it. It
// ends when either side does; the other side learns of that by the end of its
// socket. Everything that was sent before the end arrives before it. For that
// the relay lingers when its own side has closed the link and the socket;
// nobody waits for it.
class Relay : public std::enable_shared_from_this<Relay> {
 public:
  // Connects to `destination`, from `source` unless that is empty, and says
  // `preamble`. For queue pairs that are connected manually it tries until the
  // other end of the link's socket is closed. For the connection manager it
  // tries as long as a host that has lost the owner of its port needs to find
  // another; then it closes the socket, which means that nobody listens. If the
  // host does not answer, the socket stays open: the connection manager has a
  // deadline of its own.
  static void Connect(Engine& engine, LingeringRelays& lingering,
                      const base::SocketAddress& source,
                      const base::SocketAddress& destination,
                      const TcpPreamble& preamble, RelayLink link);

  // Goes on with `tcp`, whose preamble has been read. If `link` has no memory,
  // the relay makes it when the request of the connection manager comes.
  static void Accept(Engine& engine, LingeringRelays& lingering, ForeignFd tcp,
                     const TcpPreamble& preamble, RelayLink link);

  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

 private:
  enum class Parsed { kFrame, kIncomplete, kNoRoom, kGarbage };

  Relay(Engine& engine, LingeringRelays& lingering, const TcpPreamble& preamble,
        RelayLink link);

  bool manual() const { return preamble_.purpose == TcpPurpose::kManual; }

  // The life of the connection (relay.cc).
  void Start();
  void TryConnect();
  void OnConnectFailed(int error);
  void OnTcpReady();
  void OnSocketReady();
  void WatchTcp();
  void UnwatchTcp();
  void Pump();
  bool SleepUnlessMoving();
  void UpdateInterest();
  void OnSocketEnded();
  void HandleEnds();
  void OnTcpLost();
  void End();

  // Sending (relay_send.cc).
  void ReadSocket();
  bool Send();      // Whether anything moved.
  bool SendRest();  // Whether nothing is left in unsent_.
  size_t AppendPackets(std::byte* to, size_t room);
  LinkNews OwnNews() const;
  size_t AppendNews(std::byte* to, const LinkNews& news, bool drained);
  size_t AppendFrame(std::byte* to, TcpFrame frame, const void* payload);
  bool NoteOwnProgress();

  // Receiving (relay_receive.cc).
  bool Receive();  // Whether anything moved.
  Parsed ParseFrame(const std::byte* bytes, size_t length, size_t& used);
  Parsed TakeFrame(const TcpFrame& frame, const std::byte* payload);
  Parsed TakePacket(const TcpFrame& frame, const std::byte* payload);
  Parsed TakeState(const TcpFrame& frame);
  Parsed TakeCmMessage(const std::byte* payload);
  bool CompleteRequest(CmMessage& request, base::UniqueFd& memory_fd);
  void OnGarbage();

  Engine& engine_;
  LingeringRelays& lingering_;
  uint64_t lingering_name_ = 0;  // Its name in lingering_; 0 if not there.
  const TcpPreamble preamble_;
  bool active_ = false;
  // The addresses that an active relay connects from and to.
  base::SocketAddress source_;
  base::SocketAddress destination_;

  // The TCP connection and the link's socket, each until it has ended.
  ForeignFd tcp_;
  bool tcp_watched_ = false;
  bool connecting_ = false;
  bool tcp_ended_ = false;
  bool finishing_ = false;  // We have sent our end, and wait for the peer's.
  base::UniqueFd socket_;
  bool socket_ended_ = false;
  LinkSide side_;
  LinkEnd link_;
  bool ended_ = false;

  // Outgoing.
  bool preamble_sent_ = false;
  uint32_t sent_frames_ = 0;
  // Requests that the queue pair of this process has executed, and how many of
  // them the peer was told of.
  uint32_t executed_ = 0;
  uint32_t executed_told_ = 0;
  LinkNews news_told_;
  std::optional<CmMessage> message_;  // To be sent behind what is in the ring.
  std::vector<std::byte> unsent_;     // Bytes that the TCP socket did not take.

  // Incoming.
  uint32_t received_frames_ = 0;
  LinkNews peer_news_;
  bool no_room_ = false;  // The next frame finds no room in the ring.
  std::vector<std::byte> unparsed_;  // Less than kTcpBatchBytes.

  int failures_ = 0;  // Attempts to connect that have failed in a row.
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_REMOTE_RELAY_H_
