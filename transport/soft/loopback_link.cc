#include "transport/soft/loopback_link.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/statusor.h"
#include "transport/soft/queue_pair.h"

namespace verbena::soft {

std::pair<std::unique_ptr<LoopbackLink>, std::unique_ptr<LoopbackLink>>
LoopbackLink::CreatePair() {
  absl::StatusOr<LinkMemory> first = LinkMemory::Create();
  if (!first.ok()) return {};
  absl::StatusOr<LinkMemory> second = LinkMemory::Map(first->fd());
  if (!second.ok()) return {};
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    return {};
  }
  return {std::unique_ptr<LoopbackLink>(new LoopbackLink(
              *std::move(first), LinkSide::kFirst, sockets[0])),
          std::unique_ptr<LoopbackLink>(new LoopbackLink(
              *std::move(second), LinkSide::kSecond, sockets[1]))};
}

LoopbackLink::~LoopbackLink() {
  if (engine_ != nullptr) engine_->Unwatch(socket_fd_);
  close(socket_fd_);
}

void LoopbackLink::Start(QueuePair& qp, Engine& engine) {
  engine_ = &engine;
  qp_ = &qp;
  qp.AttachLink(std::move(memory_), side_, socket_fd_);
  engine.Watch(socket_fd_, [this] { OnReadable(); });
}

void LoopbackLink::OnReadable() {
  unsigned char message;
  const ssize_t got =
      recv(socket_fd_, &message, sizeof(message), MSG_DONTWAIT | MSG_TRUNC);
  if (got > 0) {
    qp_->OnDoorbell();
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    engine_->Unwatch(socket_fd_);
    qp_->OnPeerGone();
  }
}

}  // namespace verbena::soft
