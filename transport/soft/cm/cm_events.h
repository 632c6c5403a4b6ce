// The events of identifiers: raised by the parts of the connection manager,
// read and acknowledged by the user.

#ifndef VERBENA_TRANSPORT_SOFT_CM_CM_EVENTS_H_
#define VERBENA_TRANSPORT_SOFT_CM_CM_EVENTS_H_

#include <rdma/rdma_cma.h>

#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/soft/cm/cm_channel.h"
#include "transport/soft/cm/cm_endpoint.h"
#include "transport/soft/cm/cm_locks.h"

namespace verbena::soft {

// Knows which channel an identifier raises its events in, and how many of them
// the user has yet to acknowledge.
//
// Thread-safe. It calls no other part of the manager, so its methods may be
// called with kEndpoints held or without; those that block, only without.
class CmEvents {
 public:
  CmEvents() = default;
  CmEvents(const CmEvents&) = delete;
  CmEvents& operator=(const CmEvents&) = delete;

  // rdma_get_cm_event: returns 0 or an errno. Blocks unless the channel's
  // descriptor is non-blocking. It never returns, as with the kernel, when the
  // channel is destroyed meanwhile, or was destroyed a moment before: there are
  // programs that destroy the channel while a thread of theirs goes from one
  // event to the next, and then end.
  int Get(CmChannel& channel, rdma_cm_event*& event);
  void Ack(CmEventRecord* event);
  void DestroyChannel(std::unique_ptr<CmChannel> channel);

  // The user has created `endpoint`, which raises its events in `channel`.
  void Add(CmEndpoint& endpoint, CmChannel& channel);

  // Moves `endpoint` and its unread events to `channel`. Blocks until every
  // event of it that was read is acknowledged.
  void Migrate(CmEndpoint& endpoint, CmChannel& channel);

  void Post(CmEndpoint& endpoint, std::unique_ptr<CmEventRecord> event);
  void Post(CmEndpoint& endpoint, rdma_cm_event_type type, int status = 0) {
    Post(endpoint, std::make_unique<CmEventRecord>(type, status));
  }

  // Tells the user of `listener` of `child`, which was born of a request. The
  // child raises its events in the listener's channel, and belongs to the user
  // once the event is read.
  void PostRequest(CmEndpoint& listener, std::shared_ptr<CmEndpoint> child,
                   std::unique_ptr<CmEventRecord> event);
  // How many such events the user has not read yet.
  int UnreadRequests(const CmEndpoint& listener);

  // The user destroys `endpoint`. Drops its unread events, and returns those
  // children that nobody will ever learn of.
  std::vector<std::shared_ptr<CmEndpoint>> Remove(CmEndpoint& endpoint);
  // Blocks until every event of `endpoint` that was read is acknowledged.
  void AwaitAcks(const CmEndpoint& endpoint);

 private:
  EventsMutex mutex_;
  base::CondVar acked_;  // The events_unacked of some endpoint has become 0.
  // The last few channels that were destroyed, for threads that come late.
  std::deque<std::unique_ptr<CmChannel>> destroyed_channels_
      ABSL_GUARDED_BY(kEvents);
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_CM_EVENTS_H_
