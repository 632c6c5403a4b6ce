// The interface of a queue pair to whatever finds its link when no connection
// manager does.

#ifndef VERBENA_TRANSPORT_SOFT_CONNECTED_LINK_FINDER_H_
#define VERBENA_TRANSPORT_SOFT_CONNECTED_LINK_FINDER_H_

#include <infiniband/verbs.h>

namespace verbena::soft {

// Finds the links of one queue pair that its user connects manually. Queue
// pairs of RPC have none.
//
// Not thread-safe, except awaits(), AwaitAnother() and RefuseOffers():
// protected by the mutex under which the queue pair is modified.
class LinkFinder {
 public:
  LinkFinder() = default;
  LinkFinder(const LinkFinder&) = delete;
  LinkFinder& operator=(const LinkFinder&) = delete;
  virtual ~LinkFinder() = default;

  // From now on Find() waits for no process that does not read.
  virtual void StopWaitingForReaders() = 0;

  // Makes or finds the link to the queue pair that `attributes` name, and has
  // the queue pair use it. If it is for the peer to make the link, that is
  // awaited from now on. A number that nobody has is as legal as on a NIC:
  // requests to it end with their retries exceeded.
  virtual void Find(const ibv_qp_attr& attributes) = 0;
  virtual bool awaits() const = 0;
  // Returns whether the link that is awaited has come. Then the queue pair uses
  // it.
  virtual bool TakeAwaited() = 0;

  // The link has ended before the peer has said anything by it: the peer may
  // have made it in an earlier life, and make another. Returns whether that is
  // awaited from now on.
  virtual bool AwaitAnother() = 0;

  // The queue pair is not connected manually: from now on no peer's link is
  // kept for it, until it starts anew.
  virtual void RefuseOffers() = 0;

  // The queue pair starts anew. REQUIRES: it uses no link any more.
  virtual void Reset() = 0;

  // These two come before the end of the queue pair. Nothing is awaited, or
  // kept for it, after the first. The second destroys its link: afterwards that
  // does not call the queue pair any more.
  virtual void Close() = 0;
  virtual void DropLink() = 0;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CONNECTED_LINK_FINDER_H_
