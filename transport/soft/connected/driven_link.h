// The way of a queue pair to a peer on another host.

#ifndef VERBENA_TRANSPORT_SOFT_CONNECTED_DRIVEN_LINK_H_
#define VERBENA_TRANSPORT_SOFT_CONNECTED_DRIVEN_LINK_H_

#include <memory>

#include "transport/soft/link/link_driver.h"
#include "transport/soft/queues/completion_queue.h"
#include "transport/soft/queues/stream_watch.h"

namespace verbena::soft {

// The driver of a queue pair's link, and what its socket is watched for by the
// completion queue of the receives.
//
// Not thread-safe: protected by the queue pair's lock.
class DrivenLink {
 public:
  DrivenLink() = default;
  DrivenLink(const DrivenLink&) = delete;
  DrivenLink& operator=(const DrivenLink&) = delete;

  // Whether the queue pair drives its link itself. If not, its peer is on this
  // host, the driver still looks for it, or there is no driver.
  bool active() const { return active_; }

  // From now on `driver` carries the link of `qp`. With `watch` the socket is
  // one of those that polls of `queue`, and threads that wait at its channel,
  // look at.
  void Start(std::shared_ptr<LinkDriver> driver, QueuePair* qp,
             CompletionQueue& queue, bool watch);
  // Takes over from a driver that had no connection to the peer at Start().
  void TryActivate();
  // Does nothing without a driver.
  void Stop();

  // The rest REQUIRES active().

  void Receive() { driver_->Receive(); }
  bool Send() { return driver_->Send(); }
  bool input_blocked() const { return driver_->input_blocked(); }
  // Whether polls may leave the queue pair alone until its socket is ready.
  bool may_be_idle() const {
    return watched_by_polls() && !driver_->output_blocked() &&
           !driver_->owes_peer();
  }
  // Whether polls look at the socket before they run the queue pair.
  bool watched_by_polls() const {
    return watched_ && queue_->queue_pairs().watches_streams();
  }
  // Has the socket watched for what there is to do: nothing that came is taken
  // unless the queue pair is `connected`.
  void UpdateInterest(bool connected);
  // Nobody polls. If nobody waits at the channel either, the driver's own
  // thread moves bytes until WakeUp().
  void Sleep(bool somebody_waits) {
    driver_->Serve(!watched_ || !somebody_waits, /*asleep=*/true);
  }
  void WakeUp() { driver_->Serve(false, /*asleep=*/false); }
  // The queue pair takes nothing from the link for now, or for good: the driver
  // goes on by itself until Sleep() or WakeUp(), for which the queue pair must
  // be connected.
  void Leave() {
    driver_->Serve(true, /*asleep=*/true);
    UpdateInterest(/*connected=*/false);
  }

 private:
  std::shared_ptr<LinkDriver> driver_;
  QueuePair* qp_ = nullptr;
  CompletionQueue* queue_ = nullptr;
  bool watch_wanted_ = false;
  bool active_ = false;
  bool watched_ = false;
  bool input_ = true;
  bool output_ = false;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CONNECTED_DRIVEN_LINK_H_
