// Owner of a completion channel.

#ifndef VERBENA_TRANSPORT_VERBS_COMPLETION_CHANNEL_H_
#define VERBENA_TRANSPORT_VERBS_COMPLETION_CHANNEL_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/verbs/verbs_handle.h"
#include "transport/verbs/verbs_ops.h"

namespace verbena::transport {

// Owns an ibv_comp_channel: where armed completion queues report that they have
// something. Its descriptor does not block. The context must outlive it; the
// completion queues on it must be gone before it. Not thread-safe.
class CompletionChannel
    : public VerbsHandle<ibv_comp_channel, &VerbsOps::destroy_comp_channel> {
 public:
  static absl::StatusOr<CompletionChannel> Create(const VerbsOps& ops,
                                                  ibv_context* context);

  CompletionChannel() = default;

  // Readable when there is an event.
  int fd() const { return get()->fd; }

  // Takes and acknowledges one event. Returns whether there was one.
  absl::StatusOr<bool> TakeEvent();

 private:
  using VerbsHandle::VerbsHandle;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_VERBS_COMPLETION_CHANNEL_H_
