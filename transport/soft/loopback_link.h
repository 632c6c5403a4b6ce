// Joins two queue pairs of this process that were connected by hand, without
// the connection manager: by naming each other in dest_qp_num.

#ifndef VERBENA_TRANSPORT_SOFT_LOOPBACK_LINK_H_
#define VERBENA_TRANSPORT_SOFT_LOOPBACK_LINK_H_

#include <memory>
#include <utility>

#include "transport/soft/engine.h"
#include "transport/soft/link.h"

namespace verbena::soft {

class QueuePair;

// One end: the link's memory, and the socket that carries its doorbells.
//
// Once started it borrows the queue pair, which owns it, and the engine; the
// destructor ends all use of both. Not to be destroyed with the queue pair's
// lock held.
class LoopbackLink {
 public:
  // Both ends; null ones when the process is out of descriptors or memory.
  static std::pair<std::unique_ptr<LoopbackLink>, std::unique_ptr<LoopbackLink>>
  CreatePair();

  LoopbackLink(const LoopbackLink&) = delete;
  LoopbackLink& operator=(const LoopbackLink&) = delete;
  ~LoopbackLink();

  // Attaches this end to `qp` and answers its doorbells from now on.
  void Start(QueuePair& qp, Engine& engine);

 private:
  LoopbackLink(LinkMemory memory, LinkSide side, int socket_fd)
      : memory_(std::move(memory)), side_(side), socket_fd_(socket_fd) {}

  void OnReadable();

  LinkMemory memory_;
  const LinkSide side_;
  const int socket_fd_;
  Engine* engine_ = nullptr;  // Null until started.
  QueuePair* qp_ = nullptr;   // Likewise.
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_LOOPBACK_LINK_H_
