#include "transport/soft/remote/tcp_switch.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/soft/address/cm_address.h"
#include "transport/soft/base/fd_message.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/link/cm_message.h"
#include "transport/soft/link/link_offer.h"
#include "transport/soft/link/number_blocks.h"
#include "transport/soft/remote/tcp_protocol.h"
#include "transport/soft/remote/tcp_socket.h"

namespace verbena::soft {
namespace {

using std::chrono::milliseconds;

// A correct peer sends its preamble as soon as it is connected, so this many
// without one, or one for so long, are not correct peers.
constexpr size_t kVisitorsMax = 128;
constexpr std::chrono::seconds kVisitorTimeout(5);

// The pause before the next attempt at a port that another program has.
constexpr milliseconds kPortPause(1000);
// The pause before the next accept() when out of descriptors.
constexpr milliseconds kAcceptPause(100);

constexpr int kAcceptBatch = 64;

base::UniqueFd UnixSocket(int type) {
  return base::UniqueFd(
      ::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Tells a connection manager that nobody listens for it.
void SendReject(int socket, uint16_t reason) {
  const CmMessage message = {.type = CmMessageType::kReject,
                             .reject_reason = reason};
  TcpFrame frame;
  frame.kind = TcpFrameKind::kCmMessage;
  frame.length = sizeof(message);
  std::byte bytes[sizeof(frame) + sizeof(message)];
  std::memcpy(bytes, &frame, sizeof(frame));
  std::memcpy(bytes + sizeof(frame), &message, sizeof(message));
  // The socket is new: there is room.
  static_cast<void>(
      ::send(socket, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL));
  // Nothing else is said to this visitor, whose end is awaited.
  ::shutdown(socket, SHUT_WR);
}

}  // namespace

TcpSwitch::TcpSwitch(Engine& engine, uint16_t port, const PeerUsers& users)
    : engine_(engine),
      port_(port),
      users_(users),
      role_(engine, absl::StrCat("tcp/", port), [this] { Compete(); }) {}

void TcpSwitch::Start() {
  // All else runs on the engine's thread.
  engine_.Post([this] {
    if (!started_) Compete();
    started_ = true;
  });
}

void TcpSwitch::Compete() {
  if (role_.Take()) {
    OpenPort();
  } else if (role_.IsOfOthers(users_)) {
    Warn("is held by a process of another user");
  }
}

// A server learns in no other way that other hosts cannot reach it, so it is
// said on standard error.
void TcpSwitch::Warn(absl::string_view problem) {
  if (std::exchange(warned_, true)) return;
  warning_.Say(absl::StrCat(
      "TCP port ", port_, ", at which other hosts reach the software device, ",
      problem,
      ": until that changes, only processes of this host can reach this one "
      "(VERBENA_SOFT_TCP_PORT chooses another port, which must be the same on "
      "all hosts)"));
}

void TcpSwitch::OpenPort() {
  const int error = OpenTcpListener(port_, listener_);
  if (error != 0) {
    // Some other program has it. This host is reached when that is gone.
    Warn(error == EADDRINUSE ? "is taken by another program"
                             : absl::StrCat("cannot be opened, errno ", error));
    engine_.StartTimer(kPortPause, [this] { OpenPort(); });
    return;
  }
  engine_.WatchWhenPossible(listener_.get(), [this] { OnIncoming(); });
}

void TcpSwitch::OnIncoming() {
  for (int i = 0; i < kAcceptBatch; ++i) {
    base::UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr,
                                    SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) {
      AddVisitor(std::move(socket));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return;
    // Out of descriptors or memory: the connection stays in the queue and would
    // bring us back here at once.
    engine_.SetInterest(listener_.get(), false, false);
    engine_.StartTimer(kAcceptPause, [this] {
      engine_.SetInterest(listener_.get(), true, false);
    });
    return;
  }
}

void TcpSwitch::AddVisitor(base::UniqueFd socket) {
  if (visitors_.size() >= kVisitorsMax) {
    // The keys count upwards, so the first visitor is the oldest.
    RemoveVisitor(visitors_.begin()->first);
  }
  // The socket becomes readable when the whole preamble has come, or when the
  // connection ends before that.
  const int enough = sizeof(TcpPreamble);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVLOWAT, &enough, sizeof(enough));
  const uint64_t key = next_visitor_++;
  engine_.WatchWhenPossible(socket.get(), [this, key] { OnVisitor(key); });
  engine_.StartTimer(kVisitorTimeout, [this, key] { RemoveVisitor(key); });
  visitors_.emplace(key, Visitor{std::move(socket)});
}

void TcpSwitch::RemoveVisitor(uint64_t key) {
  const auto found = visitors_.find(key);
  // Its timer comes even if the visitor is gone.
  if (found == visitors_.end()) return;
  engine_.Unwatch(found->second.socket.get());
  visitors_.erase(found);
}

// Passes on a visitor whose preamble has come. If nobody listens for it, looks
// again for a while, and then tells it so and waits for its end.
void TcpSwitch::OnVisitor(uint64_t key) {
  Visitor& visitor = visitors_.at(key);
  const int socket = visitor.socket.get();
  if (visitor.refused) {
    // Bytes that a refused visitor still sends are read and dropped. Closing a
    // socket with unread bytes would reset the connection, and the refusal
    // could be lost.
    char bytes[4096];
    const ssize_t got = ::recv(socket, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) RemoveVisitor(key);
    return;
  }
  const Passed passed = Pass(socket);
  if (passed == Passed::kYes || passed == Passed::kNo) {
    RemoveVisitor(key);  // A process that it was passed to has its own handle.
    return;
  }
  if (passed == Passed::kRefused && AskAgain(key, visitor)) return;
  // No preamble is awaited any more, so any byte counts, and the end.
  const int any = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &any, sizeof(any));
  SendReject(socket,
             passed == Passed::kOthers ? kOtherUser : kInvalidServiceId);
  visitor.refused = true;
}

// The preamble makes the socket readable all the time, so it is not watched
// until the next look.
bool TcpSwitch::AskAgain(uint64_t key, Visitor& visitor) {
  const auto now = std::chrono::steady_clock::now();
  if (visitor.refuse_at == std::chrono::steady_clock::time_point::max()) {
    visitor.refuse_at = now + milliseconds(kListenerAwayMs);
  }
  if (now >= visitor.refuse_at) return false;
  engine_.Unwatch(visitor.socket.get());
  engine_.StartTimer(milliseconds(kListenerLookMs), [this, key] {
    const auto found = visitors_.find(key);
    if (found == visitors_.end()) return;
    engine_.WatchWhenPossible(found->second.socket.get(),
                              [this, key] { OnVisitor(key); });
  });
  return true;
}

// Looks at the preamble and leaves it in the socket, because the process that
// gets the connection reads it too. A number is found by the name of its
// socket, a listener by its address.
TcpSwitch::Passed TcpSwitch::Pass(int socket) {
  TcpPreamble preamble;
  if (::recv(socket, &preamble, sizeof(preamble), MSG_DONTWAIT | MSG_PEEK) !=
          sizeof(preamble) ||
      !preamble.IsLegal()) {
    return Passed::kNo;
  }
  if (preamble.purpose == TcpPurpose::kManual) {
    LinkOffer offer;
    offer.kind = LinkOfferKind::kTcp;
    offer.from = preamble.from;
    offer.to = preamble.to;
    const base::UniqueFd sender = UnixSocket(SOCK_DGRAM);
    const bool passed =
        sender.valid() &&
        SendFdMessage(sender.get(), &offer, sizeof(offer), {socket, -1},
                      NumberBlocks::SocketName(preamble.to)) == 0;
    return passed ? Passed::kYes : Passed::kNo;
  }
  base::SocketAddress local = TcpLocalAddress(socket);
  base::UniqueFd sender = UnixSocket(SOCK_SEQPACKET);
  if (local.empty() || !sender.valid()) return Passed::kNo;
  local.set_port(preamble.destination_port);
  const int error = ConnectSocket(local, users_, sender);
  if (error == ECONNREFUSED) return Passed::kRefused;
  if (error == EACCES) return Passed::kOthers;
  if (error != 0 ||
      SendCmMessage(sender.get(), {.type = CmMessageType::kRemoteConnection},
                    socket) != 0) {
    return Passed::kNo;
  }
  return Passed::kYes;
}

}  // namespace verbena::soft
