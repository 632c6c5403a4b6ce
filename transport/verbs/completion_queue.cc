#include "transport/verbs/completion_queue.h"

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "transport/verbs/error.h"

namespace verbena::transport {

absl::StatusOr<CompletionQueue> CompletionQueue::Create(
    const VerbsOps& ops, ibv_context* context, int depth,
    CompletionChannel* channel) {
  // Without a channel the queue can only be polled. Vector 0 exists on every
  // device.
  ibv_cq* const cq =
      ops.create_cq(context, depth, /*cq_context=*/nullptr,
                    channel == nullptr ? nullptr : channel->get(),
                    /*comp_vector=*/0);
  if (cq == nullptr) {
    return ErrnoStatus("create_cq", absl::StrCat("depth ", depth), errno);
  }
  return CompletionQueue(ops, cq);
}

absl::Status CompletionQueue::RequestNotify() {
  // Any completion counts: the library posts no solicited SENDs.
  const int error = ibv_req_notify_cq(get(), /*solicited_only=*/0);
  if (error != 0) return ErrnoStatus("req_notify_cq", "", error);
  return absl::OkStatus();
}

}  // namespace verbena::transport
