#include "transport/soft/device/hand_link.h"

#include <sys/socket.h>

#include <cerrno>

#include "absl/status/statusor.h"
#include "transport/soft/connected/queue_pair.h"
#include "transport/soft/remote/relay.h"

namespace verbena::soft {

std::pair<std::unique_ptr<HandLink>, std::unique_ptr<HandLink>>
HandLink::CreatePair() {
  absl::StatusOr<LinkMemory> first = LinkMemory::Create();
  if (!first.ok()) return {};
  absl::StatusOr<LinkMemory> second = LinkMemory::Map(first->fd());
  if (!second.ok()) return {};
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    return {};
  }
  return {std::make_unique<HandLink>(*std::move(first), LinkSide::kFirst,
                                     base::UniqueFd(sockets[0])),
          std::make_unique<HandLink>(*std::move(second), LinkSide::kSecond,
                                     base::UniqueFd(sockets[1]))};
}

HandLink::~HandLink() {
  if (engine_ == nullptr) return;
  engine_->Unwatch(socket_.get());
  if (relayed_) Relay::Finish(socket_.get());
}

bool HandLink::HasPeer() const {
  unsigned char message;
  const ssize_t got = recv(socket_.get(), &message, sizeof(message),
                           MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

void HandLink::Start(QueuePair& qp, Engine& engine) {
  engine_ = &engine;
  qp_ = &qp;
  qp.AttachLink(std::move(memory_), side_, socket_.get());
  engine.Watch(socket_.get(), [this] { OnReadable(); });
}

void HandLink::OnReadable() {
  unsigned char message;
  const ssize_t got =
      recv(socket_.get(), &message, sizeof(message), MSG_DONTWAIT | MSG_TRUNC);
  if (got > 0) {
    qp_->OnDoorbell();
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    engine_->Unwatch(socket_.get());
    qp_->OnHandLinkEnd();
  }
}

}  // namespace verbena::soft
