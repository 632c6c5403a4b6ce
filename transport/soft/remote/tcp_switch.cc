#include "transport/soft/remote/tcp_switch.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/soft/base/fd_message.h"
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
      "TCP port ", port_,
      ", at which queue pairs of other hosts find those that "
      "are connected without rdma_cm, ",
      problem,
      ": until that changes, only those of this host find them "
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
  visitors_.emplace(key, std::move(socket));
}

void TcpSwitch::RemoveVisitor(uint64_t key) {
  const auto found = visitors_.find(key);
  // Its timer comes even if the visitor is gone.
  if (found == visitors_.end()) return;
  engine_.Unwatch(found->second.get());
  visitors_.erase(found);
}

// Passes on a visitor whose preamble has come, or lets it go. A process that it
// was passed to has its own handle.
void TcpSwitch::OnVisitor(uint64_t key) {
  Pass(visitors_.at(key).get());
  RemoveVisitor(key);
}

// Looks at the preamble and leaves it in the socket, because the process that
// gets the connection reads it too. The queue pair of that number is found by
// the name of a socket.
void TcpSwitch::Pass(int socket) {
  TcpPreamble preamble;
  if (::recv(socket, &preamble, sizeof(preamble), MSG_DONTWAIT | MSG_PEEK) !=
          sizeof(preamble) ||
      !preamble.IsLegal()) {
    return;
  }
  LinkOffer offer;
  offer.kind = LinkOfferKind::kTcp;
  offer.from = preamble.from;
  offer.to = preamble.to;
  const base::UniqueFd sender(
      ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!sender.valid()) return;
  SendFdMessage(sender.get(), &offer, sizeof(offer), {socket, -1},
                NumberBlocks::SocketName(preamble.to));
}

}  // namespace verbena::soft
