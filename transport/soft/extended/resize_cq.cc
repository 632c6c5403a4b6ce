#include "transport/soft/extended/resize_cq.h"

#include <cerrno>

#include "transport/soft/base/limits.h"
#include "transport/soft/queues/completion_queue.h"

namespace verbena::soft {

int ResizeCq(ibv_cq* cq, int cqe) {
  if (cqe < 1 || cqe > kCompletionsMax) return EINVAL;
  const auto depth = static_cast<uint32_t>(RoundedCompletions(cqe));
  return CompletionQueue::From(cq)->Resize(depth) ? 0 : EINVAL;
}

}  // namespace verbena::soft
