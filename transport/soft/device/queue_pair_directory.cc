#include "transport/soft/device/queue_pair_directory.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/soft/address/gid_table.h"
#include "transport/soft/base/limits.h"

namespace verbena::soft {
namespace {

// How long to wait for a process whose socket is full. Its engine's thread
// empties it at once, unless the process is stopped.
constexpr timeval kSendTimeout = {.tv_sec = 1, .tv_usec = 0};

// Links that wait for one queue pair. A correct host makes one; what is more
// comes from those who did so earlier, and are gone.
constexpr int kHalfLinksMax = 4;

// Messages taken in one callback, so that others have their turn.
constexpr int kReadBatch = 64;

bool IsPacketSocket(int fd) {
  int domain = 0;
  int type = 0;
  socklen_t length = sizeof(domain);
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 &&
         getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 &&
         domain == AF_UNIX && type == SOCK_SEQPACKET;
}

// Which of two queue pairs on different hosts makes the link: both say the
// same.
bool ComesFirst(uint32_t own, const ManualPeer& peer) {
  if (own != peer.number) return own < peer.number;
  const ibv_gid mine = GidOf(peer.source);
  const ibv_gid theirs = GidOf(peer.host);
  return std::memcmp(mine.raw, theirs.raw, sizeof(mine.raw)) < 0;
}

}  // namespace

QueuePairDirectory::QueuePairDirectory(Engine& engine, Network& network)
    : engine_(engine), network_(network), numbers_([this](int socket) {
        engine_.Watch(socket, [this, socket] { OnReadable(socket); });
      }) {}

uint32_t QueuePairDirectory::Add(DeviceQueuePair* qp) {
  const base::MutexLock lock(mutex_);
  if (queue_pairs_.size() >= kQueuePairsMax) return 0;
  const uint32_t number = numbers_.Take();
  if (number != 0) queue_pairs_[number] = qp;
  return number;
}

void QueuePairDirectory::Remove(uint32_t number) {
  DropLinksOf(number);
  std::vector<std::unique_ptr<ManualLink>> dropped;  // After the lock.
  const base::MutexLock lock(mutex_);
  const auto first = half_links_.lower_bound(Key{number, 0, {}});
  const auto last = half_links_.lower_bound(Key{number + 1, 0, {}});
  for (auto entry = first; entry != last; ++entry) {
    dropped.push_back(std::move(entry->second.link));
  }
  half_links_.erase(first, last);
  queue_pairs_.erase(number);
  numbers_.Return(number);
}

void QueuePairDirectory::DropLinksOf(uint32_t number) {
  const base::MutexLock lock(mutex_);
  const ManualPeer local{.number = number};
  std::erase_if(half_links_, [&](const auto& entry) {
    return entry.first == KeyOf(std::get<0>(entry.first), local);
  });
}

void QueuePairDirectory::ForEach(
    const std::function<void(DeviceQueuePair&)>& call) {
  const base::MutexLock lock(mutex_);
  for (const auto& [number, qp] : queue_pairs_) call(*qp);
}

DeviceQueuePair* QueuePairDirectory::FindConnected(uint32_t number) {
  const auto found = queue_pairs_.find(number);
  return found == queue_pairs_.end() ||
                 found->second->handle()->qp_type == IBV_QPT_UD
             ? nullptr
             : found->second;
}

QueuePairDirectory::Key QueuePairDirectory::KeyOf(uint32_t own,
                                                  const ManualPeer& peer) {
  const ibv_gid gid = GidOf(peer.host);
  std::array<uint8_t, 16> host;
  std::copy(std::begin(gid.raw), std::end(gid.raw), host.begin());
  return Key{own, peer.number, host};
}

std::unique_ptr<ManualLink> QueuePairDirectory::Take(uint32_t own,
                                                     const ManualPeer& peer) {
  const base::MutexLock lock(mutex_);
  return TakeLocked(own, peer);
}

std::unique_ptr<ManualLink> QueuePairDirectory::TakeLocked(
    uint32_t own, const ManualPeer& peer) {
  const auto found = half_links_.find(KeyOf(own, peer));
  if (found == half_links_.end()) return nullptr;
  std::unique_ptr<ManualLink> link = std::move(found->second.link);
  half_links_.erase(found);
  // Its maker may have died, or thought better of it.
  return link->HasPeer() ? std::move(link) : nullptr;
}

std::unique_ptr<ManualLink> QueuePairDirectory::Connect(
    uint32_t own, const ManualPeer& peer) {
  {
    const base::MutexLock lock(mutex_);
    if (auto link = TakeLocked(own, peer); link != nullptr) return link;
    if (!peer.host.empty()) return ConnectToHost(own, peer);
    if (peer.number == own) return nullptr;
    if (DeviceQueuePair* const other = FindConnected(peer.number)) {
      auto [mine, peers] = ManualLink::CreatePair();
      if (mine == nullptr) return nullptr;
      engine_.Kick(other);  // It may wait for this.
      half_links_[KeyOf(peer.number, ManualPeer{.number = own})] =
          HalfLink{next_age_++, std::move(peers)};
      return std::move(mine);
    }
  }
  return own < peer.number ? ConnectToProcess(own, peer.number) : nullptr;
}

std::unique_ptr<ManualLink> QueuePairDirectory::ConnectToProcess(
    uint32_t own, uint32_t peer) {
  auto [mine, peers] = ManualLink::CreatePair();
  if (mine == nullptr) return nullptr;
  const base::UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
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

void QueuePairDirectory::OnReadable(int socket) {
  for (int i = 0; i < kReadBatch; ++i) {
    LinkOffer offer = {};
    FdMessage message = ReceiveFdMessage(socket, &offer, sizeof(offer));
    if (message.length < 0) return;
    if (message.length == sizeof(offer) && !message.cut) {
      TakeOffer(offer, std::move(message));
    }
  }
}

void QueuePairDirectory::TakeOffer(const LinkOffer& offer, FdMessage message) {
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
  Keep(offer.to, ManualPeer{.number = offer.from},
       std::make_unique<ManualLink>(*std::move(memory), LinkSide::kSecond,
                                    std::move(message.fds[1])));
}

// The link's other end is a relay of this process.
void QueuePairDirectory::TakeTcpOffer(const LinkOffer& offer,
                                      base::UniqueFd tcp) {
  if (!network_.enabled() || network_.Start() != 0) return;
  const std::optional<TcpCaller> caller = Network::ReadPreamble(tcp.get());
  if (!caller.has_value() || caller->preamble.purpose != TcpPurpose::kManual ||
      caller->preamble.to != offer.to) {
    return;
  }
  auto [relays, own] = ManualLink::CreatePair();
  if (own == nullptr) return;
  own->set_relayed();
  const ManualPeer peer = {.number = caller->preamble.from,
                           .host = caller->address};
  network_.Accept(
      std::move(tcp), caller->preamble,
      {relays->TakeMemory(), LinkSide::kFirst, relays->TakeSocket()});
  Keep(offer.to, peer, std::move(own));
}

std::unique_ptr<ManualLink> QueuePairDirectory::ConnectToHost(
    uint32_t own, const ManualPeer& peer) {
  if (!network_.enabled() || network_.Start() != 0) return nullptr;
  if (!ComesFirst(own, peer)) {
    network_.OpenPort();
    return nullptr;
  }
  auto [mine, relays] = ManualLink::CreatePair();
  if (mine == nullptr) return nullptr;
  mine->set_relayed();
  TcpPreamble preamble;
  preamble.from = own;
  preamble.to = peer.number;
  network_.Connect(
      peer.source, peer.host, preamble,
      {relays->TakeMemory(), LinkSide::kSecond, relays->TakeSocket()});
  return std::move(mine);
}

void QueuePairDirectory::Keep(uint32_t own, const ManualPeer& peer,
                              std::unique_ptr<ManualLink> link) {
  const base::MutexLock lock(mutex_);
  DeviceQueuePair* const qp = FindConnected(own);
  if (qp == nullptr) return;
  half_links_[KeyOf(own, peer)] = HalfLink{next_age_++, std::move(link)};
  DropOldest(own);
  engine_.Kick(qp);
}

// When there are too many for `own`.
void QueuePairDirectory::DropOldest(uint32_t own) {
  const auto first = half_links_.lower_bound(Key{own, 0, {}});
  const auto last = half_links_.lower_bound(Key{own + 1, 0, {}});
  if (std::distance(first, last) <= kHalfLinksMax) return;
  half_links_.erase(
      std::min_element(first, last, [](const auto& a, const auto& b) {
        return a.second.age < b.second.age;
      }));
}

}  // namespace verbena::soft
