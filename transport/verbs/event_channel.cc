#include "transport/verbs/event_channel.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "transport/base/clock.h"
#include "transport/verbs/error.h"

namespace verbena::transport {

absl::StatusOr<EventChannel> EventChannel::Create(const Provider& provider) {
  rdma_event_channel* channel = provider.cm.create_event_channel();
  if (channel == nullptr) {
    return ErrnoStatus("create_event_channel", provider.name, errno);
  }
  EventChannel result(provider.cm, channel);
  const int flags = ::fcntl(channel->fd, F_GETFL);
  // Poll() never blocks, so get_cm_event must not. If this fails, `result`
  // destroys the channel.
  if (flags < 0 || ::fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) < 0) {
    return ErrnoStatus("fcntl", "RDMA event channel", errno);
  }
  return result;
}

EventChannel::EventChannel(EventChannel&& other) noexcept
    : ops_(other.ops_), channel_(std::exchange(other.channel_, nullptr)) {}

EventChannel& EventChannel::operator=(EventChannel&& other) noexcept {
  // The old channel goes with `other`.
  std::swap(ops_, other.ops_);
  std::swap(channel_, other.channel_);
  return *this;
}

EventChannel::~EventChannel() {
  if (channel_ != nullptr) ops_->destroy_event_channel(channel_);
}

// Takes one event, copies it and acknowledges it. A signal makes it try again.
absl::StatusOr<std::optional<CmEvent>> EventChannel::Poll() {
  rdma_cm_event* event = nullptr;
  while (ops_->get_cm_event(channel_, &event) != 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
    if (errno != EINTR) return ErrnoStatus("get_cm_event", "", errno);
  }
  // Copied before the acknowledgement, which frees the event and its private
  // data.
  std::optional<CmEvent> result = CmEvent::FromRdma(*event);
  // The event is acknowledged at once, because destroy_id blocks until every
  // event of the id is.
  if (ops_->ack_cm_event(event) != 0) {
    return ErrnoStatus("ack_cm_event", CmEventName(result->type), errno);
  }
  return result;
}

// Looks for an event before it waits, and computes the rest of the time anew
// after every wake-up, because a signal may end poll() early.
absl::StatusOr<std::optional<CmEvent>> EventChannel::WaitEvent(
    absl::Duration timeout) {
  const absl::Time deadline = base::Now() + timeout;
  while (true) {
    absl::StatusOr<std::optional<CmEvent>> event = Poll();
    if (!event.ok() || event->has_value()) return event;
    const absl::Duration left = deadline - base::Now();
    if (left <= absl::ZeroDuration()) return std::nullopt;
    // Rounded up, so that the last wait does not become a busy loop.
    const int64_t left_ms =
        absl::ToInt64Milliseconds(left + absl::Microseconds(999));
    pollfd descriptor = {.fd = channel_->fd, .events = POLLIN, .revents = 0};
    if (::poll(&descriptor, 1,
               static_cast<int>(std::min<int64_t>(left_ms, INT_MAX))) < 0 &&
        errno != EINTR) {
      return ErrnoStatus("poll", "RDMA event channel", errno);
    }
  }
}

}  // namespace verbena::transport
