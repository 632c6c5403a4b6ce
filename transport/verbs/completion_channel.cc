#include "transport/verbs/completion_channel.h"

#include <fcntl.h>

#include <cerrno>

#include "transport/verbs/error.h"

namespace verbena::transport {

absl::StatusOr<CompletionChannel> CompletionChannel::Create(
    const VerbsOps& ops, ibv_context* context) {
  ibv_comp_channel* const channel = ops.create_comp_channel(context);
  if (channel == nullptr) {
    return ErrnoStatus("create_comp_channel",
                       ops.get_device_name(context->device), errno);
  }
  CompletionChannel result(ops, channel);
  const int flags = fcntl(channel->fd, F_GETFL);
  // TakeEvent() must return when there is no event, so get_cq_event must not
  // block. If this fails, `result` destroys the channel.
  if (flags < 0 || fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return ErrnoStatus("fcntl", "a completion channel", errno);
  }
  return result;
}

// Returns false if there is no event. A signal makes it try again.
absl::StatusOr<bool> CompletionChannel::TakeEvent() {
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  while (ops().get_cq_event(get(), &cq, &cq_context) != 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
    if (errno != EINTR) return ErrnoStatus("get_cq_event", "", errno);
  }
  // At once, because destroy_cq waits until all events of the queue are
  // acknowledged.
  ops().ack_cq_events(cq, 1);
  return true;
}

}  // namespace verbena::transport
