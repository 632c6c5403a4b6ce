#ifndef VERBENA_TRANSPORT_VERBS_EVENT_CHANNEL_H_
#define VERBENA_TRANSPORT_VERBS_EVENT_CHANNEL_H_

#include <rdma/rdma_cma.h>

#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/verbs/cm_event.h"
#include "transport/verbs/provider.h"

namespace verbena::transport {

// Owns an rdma_event_channel: where the connection manager reports what happens
// to the ids that were created on it, or migrated to it.
//
// The Provider must outlive it. Every CmId on it must be destroyed, or migrated
// away, before it. A move leaves the channel where it is, so ids may outlive
// the move.
//
// Only one thread at a time may read it. Creating it fails with NOT_FOUND
// where there is no RDMA; reading it fails only when the kernel's connection
// manager does.
class EventChannel {
 public:
  static absl::StatusOr<EventChannel> Create(const Provider& provider);

  EventChannel(EventChannel&& other) noexcept;
  EventChannel& operator=(EventChannel&& other) noexcept;
  ~EventChannel();

  // The oldest event, acknowledged and removed; nothing when there is none.
  // Never blocks.
  absl::StatusOr<std::optional<CmEvent>> Poll();

  // Poll(), after having waited for at most `timeout` if there was nothing.
  absl::StatusOr<std::optional<CmEvent>> WaitEvent(absl::Duration timeout);

  // Readable when Poll() may have something. For poll(2) and epoll only.
  int fd() const { return channel_->fd; }

  rdma_event_channel* get() const { return channel_; }

 private:
  EventChannel(const CmOps& ops, rdma_event_channel* channel)
      : ops_(&ops), channel_(channel) {}

  const CmOps* ops_;             // The table of the Provider.
  rdma_event_channel* channel_;  // Null only in a moved-from object.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_VERBS_EVENT_CHANNEL_H_
