#include "transport/soft/manual/manual_link.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/soft/base/fd_message.h"
#include "transport/soft/base/foreign_fd.h"

namespace verbena::soft {

std::pair<std::unique_ptr<ManualLink>, std::unique_ptr<ManualLink>>
ManualLink::CreatePair() {
  absl::StatusOr<LinkMemory> first = LinkMemory::Create();
  if (!first.ok()) return {};
  absl::StatusOr<LinkMemory> second = LinkMemory::Map(first->fd());
  if (!second.ok()) return {};
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    return {};
  }
  return {std::make_unique<ManualLink>(*std::move(first), LinkSide::kFirst,
                                       base::UniqueFd(sockets[0])),
          std::make_unique<ManualLink>(*std::move(second), LinkSide::kSecond,
                                       base::UniqueFd(sockets[1]))};
}

ManualLink::~ManualLink() {
  if (engine_ != nullptr) engine_->Unwatch(socket_.get());
  // An end that was made here and never started may have been passed on: then
  // the process that got it uses the same socket, which must not be emptied.
  if (engine_ != nullptr || received_) CloseEmptied(std::move(socket_));
}

// The end of the socket shows that nobody holds the other end. A doorbell that
// waits is left there.
bool ManualLink::HasPeer() const {
  unsigned char message;
  const ssize_t got = recv(socket_.get(), &message, sizeof(message),
                           MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

void ManualLink::Start(Engine& engine, ConnectedQueuePair& queue_pair) {
  engine_ = &engine;
  queue_pair_ = &queue_pair;
  // Before the socket is watched: a doorbell is for a queue pair that has the
  // link.
  queue_pair.UseLink(std::move(memory_), side_, socket_.get(),
                     std::move(driver_));
  engine.WatchWhenPossible(socket_.get(), [this] { OnReadable(); });
}

// Any message counts as a doorbell; descriptors that it brings are closed. A
// message of no bytes counts as the end, which no correct peer sends.
void ManualLink::OnReadable() {
  unsigned char byte;
  const FdMessage message =
      ReceiveFdMessage(socket_.get(), &byte, sizeof(byte));
  if (message.length > 0) {
    queue_pair_->OnDoorbell();
  } else if (message.length == 0 || message.error != EAGAIN) {
    engine_->Unwatch(socket_.get());
    queue_pair_->OnLinkEnd();
  }
}

}  // namespace verbena::soft
