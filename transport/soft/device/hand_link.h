// One end of a link between two queue pairs that were connected by hand,
// without the connection manager: by naming each other in dest_qp_num.

#ifndef VERBENA_TRANSPORT_SOFT_DEVICE_HAND_LINK_H_
#define VERBENA_TRANSPORT_SOFT_DEVICE_HAND_LINK_H_

#include <memory>
#include <utility>

#include "transport/base/unique_fd.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/link/link.h"

namespace verbena::soft {

class QueuePair;

// The link's memory, and the socket that carries its doorbells.
//
// Once started it borrows the queue pair, which owns it, and the engine; the
// destructor ends all use of both. Not to be destroyed with the queue pair's
// lock held.
class HandLink {
 public:
  // Of a link whose other end is not in our hands.
  HandLink(LinkMemory memory, LinkSide side, base::UniqueFd socket)
      : memory_(std::move(memory)), side_(side), socket_(std::move(socket)) {}
  HandLink(const HandLink&) = delete;
  HandLink& operator=(const HandLink&) = delete;
  ~HandLink();

  // A link's two ends, its creator's first; null ones when the process is out
  // of descriptors or memory.
  static std::pair<std::unique_ptr<HandLink>, std::unique_ptr<HandLink>>
  CreatePair();

  // To be passed to another process, instead of being started.
  int memory_fd() const { return memory_.fd(); }
  int socket_fd() const { return socket_.get(); }

  LinkMemory TakeMemory() { return std::move(memory_); }
  base::UniqueFd TakeSocket() { return std::move(socket_); }

  // Its other end is a relay of this process.
  void set_relayed() { relayed_ = true; }

  // Whether somebody holds the other end still.
  bool HasPeer() const;

  // Attaches this end to `qp` and answers its doorbells from now on.
  void Start(QueuePair& qp, Engine& engine);

 private:
  void OnReadable();

  LinkMemory memory_;
  const LinkSide side_;
  base::UniqueFd socket_;
  bool relayed_ = false;
  Engine* engine_ = nullptr;  // Null until started.
  QueuePair* qp_ = nullptr;   // Likewise.
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DEVICE_HAND_LINK_H_
