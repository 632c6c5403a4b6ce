#include "transport/soft/manual/manual_links.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/soft/address/gid_table.h"
#include "transport/soft/link/number_blocks.h"

namespace verbena::soft {
namespace {

// How long to wait for a process whose socket is full. Its engine's thread
// empties it at once, unless the process is stopped.
constexpr timeval kSendTimeout = {.tv_sec = 1, .tv_usec = 0};

// Links that wait for one queue pair. A correct host makes one; others come
// from queue pairs that were meant for it earlier, and are gone.
constexpr int kHalfLinksMax = 4;

// How long a link that another process has made waits here, with its
// descriptors. The user of a queue pair may be slow to connect it, but not for
// ever.
constexpr std::chrono::minutes kOfferWait(10);

// The pause before the next look at a message that brings descriptors, if there
// was no room for them.
constexpr std::chrono::milliseconds kRoomPause(100);

// Messages taken in one callback, so that others have their turn.
constexpr int kReadBatch = 64;

// Whether `fd` is one of two Unix sockets that are connected to each other. One
// that listens is refused: it would hold whatever others put into it.
bool IsPacketSocket(int fd) {
  int domain = 0;
  int type = 0;
  socklen_t length = sizeof(domain);
  sockaddr_un peer;
  socklen_t peer_length = sizeof(peer);
  return getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_length) ==
             0 &&
         getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 &&
         getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 &&
         domain == AF_UNIX && type == SOCK_SEQPACKET;
}

// Whether `own`, of two queue pairs on different hosts, is the one that makes
// the link. Both hosts come to the same answer.
bool ComesFirst(uint32_t own, const ManualPeer& peer) {
  if (own != peer.number) return own < peer.number;
  const ibv_gid mine = GidOf(peer.source);
  const ibv_gid theirs = GidOf(peer.host);
  return std::memcmp(mine.raw, theirs.raw, sizeof(mine.raw)) < 0;
}

}  // namespace

ManualLinks& ManualLinks::Get() {
  static auto* const links = new ManualLinks(SoftDevice::Get());
  return *links;
}

ManualLinks::ManualLinks(SoftDevice& device)
    : engine_(device.engine()),
      network_(device.network()),
      users_(device.peer_users()) {
  device.queue_pairs().OnSocket([this](int socket) {
    engine_.WatchWhenPossible(socket, [this, socket] { OnReadable(socket); });
  });
}

void ManualLinks::Add(DeviceQueuePair* qp) {
  const base::MutexLock lock(mutex_);
  members_[qp->handle()->qp_num] = {qp, false};
}

void ManualLinks::Remove(uint32_t number) {
  // Before the lock, which it takes itself.
  DropLinksOf(number);
  Dropped dropped;
  const base::MutexLock lock(mutex_);
  dropped = TakeAll(number);
  members_.erase(number);
}

void ManualLinks::RefuseOffers(uint32_t number) {
  Dropped dropped;
  const base::MutexLock lock(mutex_);
  members_.at(number).refuses = true;
  dropped = TakeAll(number);
}

void ManualLinks::DropLinksOf(uint32_t number) {
  const base::MutexLock lock(mutex_);
  members_.at(number).refuses = false;
  const ManualPeer local{.number = number};
  std::erase_if(half_links_, [&](const auto& entry) {
    return entry.first == KeyOf(std::get<0>(entry.first), local);
  });
}

ManualLinks::Key ManualLinks::KeyOf(uint32_t own, const ManualPeer& peer) {
  const ibv_gid gid = GidOf(peer.host);
  std::array<uint8_t, 16> host;
  std::copy(std::begin(gid.raw), std::end(gid.raw), host.begin());
  return Key{own, peer.number, host};
}

bool ManualLinks::IsMadeByOtherHost(uint32_t own, const ManualPeer& peer) {
  return !peer.host.empty() && !ComesFirst(own, peer);
}

std::unique_ptr<ManualLink> ManualLinks::Take(uint32_t own,
                                              const ManualPeer& peer) {
  const base::MutexLock lock(mutex_);
  return TakeLocked(own, peer);
}

std::unique_ptr<ManualLink> ManualLinks::TakeLocked(uint32_t own,
                                                    const ManualPeer& peer) {
  const auto found = half_links_.find(KeyOf(own, peer));
  if (found == half_links_.end()) return nullptr;
  std::unique_ptr<ManualLink> link = std::move(found->second.link);
  half_links_.erase(found);
  // The process that has made it may have died, or have dropped it.
  return link->HasPeer() ? std::move(link) : nullptr;
}

// Takes the link that the peer has made. If there is none, makes it, unless
// that is for the peer to do.
std::unique_ptr<ManualLink> ManualLinks::Connect(uint32_t own,
                                                 const ManualPeer& peer,
                                                 bool may_wait) {
  {
    const base::MutexLock lock(mutex_);
    if (auto link = TakeLocked(own, peer); link != nullptr) return link;
    if (!peer.host.empty()) return ConnectToHost(own, peer);
    if (peer.number == own) return nullptr;
    if (const auto other = members_.find(peer.number);
        other != members_.end()) {
      auto [mine, peers] = ManualLink::CreatePair();
      if (mine == nullptr) return nullptr;
      // The other one may be waiting for this link.
      engine_.Kick(other->second.queue_pair);
      half_links_[KeyOf(peer.number, ManualPeer{.number = own})] =
          HalfLink{next_age_++, std::move(peers)};
      return std::move(mine);
    }
  }
  // Without the mutex, because it may wait for the other process.
  return own < peer.number ? ConnectToProcess(own, peer.number, may_wait)
                           : nullptr;
}

// Sends one end of a new link to the process that owns the number. The kernel
// keeps it until that process reads its socket.
std::unique_ptr<ManualLink> ManualLinks::ConnectToProcess(uint32_t own,
                                                          uint32_t peer,
                                                          bool may_wait) {
  auto [mine, peers] = ManualLink::CreatePair();
  if (mine == nullptr) return nullptr;
  // The caller may hold locks; then a process that does not read gets no link.
  const int flags = SOCK_CLOEXEC | (may_wait ? 0 : SOCK_NONBLOCK);
  const base::UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | flags, 0));
  if (!socket.valid()) return nullptr;
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout,
             sizeof(kSendTimeout));
  LinkOffer offer;
  offer.from = own;
  offer.to = peer;
  const int error = SendFdMessage(socket.get(), &offer, sizeof(offer),
                                  {mine->memory_fd(), peers->socket_fd()},
                                  NumberBlocks::SocketName(peer));
  return error == 0 ? std::move(mine) : nullptr;
}

void ManualLinks::OnReadable(int socket) {
  for (int i = 0; i < kReadBatch; ++i) {
    LinkOffer offer = {};
    FdMessage message = ReceiveFdMessage(socket, &offer, sizeof(offer));
    // The message stays in the socket and would bring us back at once.
    if (message.error == ENOBUFS || message.error == EMFILE) {
      engine_.SetInterest(socket, false, false);
      engine_.StartTimer(kRoomPause, [this, socket] {
        engine_.SetInterest(socket, true, false);
      });
    }
    if (message.length < 0) return;
    // The kernel says whose message it is, because the name is anybody's to
    // send to.
    if (message.length == sizeof(offer) && !message.cut &&
        message.sender.has_value() && users_.Allows(*message.sender)) {
      TakeOffer(offer, std::move(message));
    }
  }
}

void ManualLinks::TakeOffer(const LinkOffer& offer, FdMessage message) {
  if (offer.magic != LinkOffer::kMagic) return;
  if (offer.kind == LinkOfferKind::kTcp && message.fd_count == 1) {
    TakeTcpOffer(offer, std::move(message.fds[0]));
  }
  if (offer.kind != LinkOfferKind::kLink || message.fd_count != 2 ||
      !IsPacketSocket(message.fds[1].get())) {
    return;
  }
  absl::StatusOr<LinkMemory> memory = LinkMemory::Map(message.fds[0].get());
  if (!memory.ok()) return;
  message.fds[0].Release().Reset();  // A memory file: close() does not wait.
  auto link = std::make_unique<ManualLink>(
      *std::move(memory), LinkSide::kSecond, message.fds[1].Release());
  link->set_received();
  Keep(offer.to, ManualPeer{.number = offer.from}, std::move(link));
}

// Makes a link whose other end is a relay of this process, which goes on with
// the TCP connection.
void ManualLinks::TakeTcpOffer(const LinkOffer& offer, ForeignFd tcp) {
  if (!network_.enabled() || network_.Start() != 0) return;
  const std::optional<TcpCaller> caller = Network::ReadPreamble(tcp.get());
  if (!caller.has_value() || caller->preamble.to != offer.to) {
    return;
  }
  auto [relays, own] = ManualLink::CreatePair();
  if (own == nullptr) return;
  const ManualPeer peer = {.number = caller->preamble.from,
                           .host = caller->address};
  network_.Accept(
      std::move(tcp), /*manual=*/true,
      {relays->TakeMemory(), LinkSide::kFirst, relays->TakeSocket()});
  Keep(offer.to, peer, std::move(own));
}

std::unique_ptr<ManualLink> ManualLinks::ConnectToHost(uint32_t own,
                                                       const ManualPeer& peer) {
  if (!network_.enabled() || network_.Start() != 0) return nullptr;
  if (!ComesFirst(own, peer)) {
    network_.OpenPort();
    return nullptr;
  }
  auto [mine, relays] = ManualLink::CreatePair();
  if (mine == nullptr) return nullptr;
  TcpPreamble preamble;
  preamble.from = own;
  preamble.to = peer.number;
  network_.Connect(
      peer.source, peer.host, preamble,
      {relays->TakeMemory(), LinkSide::kSecond, relays->TakeSocket()});
  return std::move(mine);
}

// Puts the link where its queue pair looks for it. The one that was there, and
// any surplus, are destroyed when the mutex has been released.
void ManualLinks::Keep(uint32_t own, const ManualPeer& peer,
                       std::unique_ptr<ManualLink> link) {
  Dropped dropped;
  const base::MutexLock lock(mutex_);
  const auto member = members_.find(own);
  if (member == members_.end() || member->second.refuses) return;
  HalfLink& kept = half_links_[KeyOf(own, peer)];
  std::swap(kept.link, link);
  kept.age = next_age_++;
  kept.expires = engine_.clock().Now() + kOfferWait;
  dropped = TakeSurplus(own);
  StartExpiry();
  engine_.Kick(member->second.queue_pair);
}

ManualLinks::Dropped ManualLinks::TakeAll(uint32_t own) {
  Dropped dropped;
  // The keys begin with the number that a link is for, so its links lie
  // together.
  const auto first = half_links_.lower_bound(Key{own, 0, {}});
  const auto last = half_links_.lower_bound(Key{own + 1, 0, {}});
  for (auto entry = first; entry != last; ++entry) {
    dropped.push_back(std::move(entry->second.link));
  }
  half_links_.erase(first, last);
  return dropped;
}

ManualLinks::Dropped ManualLinks::TakeSurplus(uint32_t own) {
  Dropped dropped;
  const auto first = half_links_.lower_bound(Key{own, 0, {}});
  const auto last = half_links_.lower_bound(Key{own + 1, 0, {}});
  if (std::distance(first, last) <= kHalfLinksMax) return dropped;
  const auto oldest = std::min_element(
      first, last,
      [](const auto& a, const auto& b) { return a.second.age < b.second.age; });
  dropped.push_back(std::move(oldest->second.link));
  half_links_.erase(oldest);
  return dropped;
}

ManualLinks::Dropped ManualLinks::TakeExpired() {
  Dropped dropped;
  const Clock::TimePoint now = engine_.clock().Now();
  for (auto& [key, half] : half_links_) {
    if (half.expires <= now) dropped.push_back(std::move(half.link));
  }
  std::erase_if(half_links_,
                [](const auto& entry) { return entry.second.link == nullptr; });
  return dropped;
}

// There is one timer for all links, so that no peer can make this process keep
// more than that.
void ManualLinks::StartExpiry() {
  if (std::exchange(expiry_runs_, true)) return;
  engine_.StartTimer(kOfferWait, [this] {
    Dropped dropped;
    const base::MutexLock lock(mutex_);
    expiry_runs_ = false;
    dropped = TakeExpired();
    if (!half_links_.empty()) StartExpiry();
  });
}

}  // namespace verbena::soft
