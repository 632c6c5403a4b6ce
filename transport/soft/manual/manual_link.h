// An end of a link between two queue pairs that were connected manually:
// without the connection manager, by naming each other in dest_qp_num.

#ifndef VERBENA_TRANSPORT_SOFT_MANUAL_MANUAL_LINK_H_
#define VERBENA_TRANSPORT_SOFT_MANUAL_MANUAL_LINK_H_

#include <memory>
#include <utility>

#include "transport/base/unique_fd.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/connected/connected_queue_pair.h"
#include "transport/soft/link/link.h"
#include "transport/soft/link/link_driver.h"

namespace verbena::soft {

// The link's memory, and the socket that carries its doorbells.
//
// Once started it borrows the engine and calls the queue pair that owns it; the
// destructor ends both, and waits for a call that is under way. So it must not
// be destroyed with a lock held that such a call takes. Not thread-safe.
class ManualLink {
 public:
  // The other end of the link may be in this process or another, or a relay's.
  ManualLink(LinkMemory memory, LinkSide side, base::UniqueFd socket)
      : memory_(std::move(memory)), side_(side), socket_(std::move(socket)) {}
  ManualLink(const ManualLink&) = delete;
  ManualLink& operator=(const ManualLink&) = delete;
  ~ManualLink();

  // Makes a link and returns its two ends, the side kFirst first. Both are null
  // when the process is out of descriptors or memory.
  static std::pair<std::unique_ptr<ManualLink>, std::unique_ptr<ManualLink>>
  CreatePair();

  // For an end that is passed to another process, instead of being started.
  int memory_fd() const { return memory_.fd(); }
  int socket_fd() const { return socket_.get(); }

  // For an end that a relay plays.
  LinkMemory TakeMemory() { return std::move(memory_); }
  base::UniqueFd TakeSocket() { return std::move(socket_); }

  // Marks the link as one that came from another process, which may have put
  // anything into the socket.
  void set_received() { received_ = true; }

  // For tests: has the queue pair drive what carries its link.
  void set_driver(std::shared_ptr<LinkDriver> driver) {
    driver_ = std::move(driver);
  }

  // Whether somebody still holds the other end.
  bool HasPeer() const;

  // From now on `queue_pair` uses the link, and is told of doorbells and of its
  // end, which is when nobody holds the other end any more.
  void Start(Engine& engine, ConnectedQueuePair& queue_pair);

 private:
  void OnReadable();

  LinkMemory memory_;
  const LinkSide side_;
  base::UniqueFd socket_;
  bool received_ = false;
  std::shared_ptr<LinkDriver> driver_;
  Engine* engine_ = nullptr;  // These two are null until started.
  ConnectedQueuePair* queue_pair_ = nullptr;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_MANUAL_MANUAL_LINK_H_
