// An end of a link between two queue pairs that were connected manually:
// without the connection manager, by naming each other in dest_qp_num.

#ifndef VERBENA_TRANSPORT_SOFT_DEVICE_MANUAL_LINK_H_
#define VERBENA_TRANSPORT_SOFT_DEVICE_MANUAL_LINK_H_

#include <functional>
#include <memory>
#include <utility>

#include "transport/base/unique_fd.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/link/link.h"

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

  LinkMemory TakeMemory() { return std::move(memory_); }
  base::UniqueFd TakeSocket() { return std::move(socket_); }

  // Marks the link as one that came from another process, which may have put
  // anything into the socket.
  void set_received() { received_ = true; }

  // Whether somebody still holds the other end.
  bool HasPeer() const;

  LinkSide side() const { return side_; }

  // From now on calls `on_doorbell` when the peer rings and, once, `on_end`
  // when nobody holds the other end any more; on the engine's thread.
  void Start(Engine& engine, std::function<void()> on_doorbell,
             std::function<void()> on_end);

 private:
  void OnReadable();

  LinkMemory memory_;
  const LinkSide side_;
  base::UniqueFd socket_;
  bool received_ = false;
  Engine* engine_ = nullptr;  // Null until started.
  std::function<void()> on_doorbell_;
  std::function<void()> on_end_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DEVICE_MANUAL_LINK_H_
