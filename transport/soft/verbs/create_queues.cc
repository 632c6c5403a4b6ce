#include "transport/soft/verbs/create_queues.h"

#include <cerrno>

#include "transport/soft/base/descriptor_error.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/base/live_handles.h"
#include "transport/soft/connected/connected_queue_pair.h"
#include "transport/soft/device/context.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/queues/completion_channel.h"
#include "transport/soft/queues/completion_queue.h"
#include "transport/soft/verbs/refuse.h"

namespace verbena::soft {

ibv_cq* CreateCq(ibv_context* context, int cqe, void* cq_context,
                 ibv_comp_channel* channel, int comp_vector) {
  // The device has one completion vector, number 0.
  if (cqe < 1 || cqe > kCompletionsMax || comp_vector != 0 ||
      (channel != nullptr &&
       (!IsLive(channel) || channel->context != context))) {
    return Refuse<ibv_cq>(EINVAL);
  }
  ++Context::From(context)->children();
  if (channel != nullptr) ++CompletionChannel::From(channel)->children();
  return new CompletionQueue(
      *Context::From(context), RoundedCompletions(cqe), cq_context,
      channel == nullptr ? nullptr : CompletionChannel::From(channel));
}

// The connection manager finds no queue pair by its number, so a number of the
// process is enough.
ibv_qp* CreateQp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  if (attributes->qp_type != IBV_QPT_RC) return Refuse<ibv_qp>(EOPNOTSUPP);
  return CreateQpBy(
      [](SoftDevice& device, ProtectionDomain& domain,
         const ibv_qp_init_attr& granted) -> std::unique_ptr<QueuePair> {
        return std::make_unique<ConnectedQueuePair>(device, domain, granted,
                                                    NumberKind::kOfProcess);
      },
      pd, attributes);
}

// Checks the attributes, which become those that are granted, and starts the
// engine before there is anything to undo.
ibv_qp* CreateQpBy(MakeQueuePair make, ibv_pd* pd,
                   ibv_qp_init_attr* attributes) {
  ProtectionDomain& domain = *ProtectionDomain::From(pd);
  if (const int error = GrantInitAttributes(domain, *attributes); error != 0) {
    return Refuse<ibv_qp>(error);
  }
  SoftDevice& device = SoftDevice::Get();
  // The engine looks after all queue pairs.
  if (const int error = device.engine().Start(); error != 0) {
    return Refuse<ibv_qp>(error);
  }
  errno = 0;
  std::unique_ptr<QueuePair> qp = make(device, domain, *attributes);
  // A block of numbers may need a socket, so errno tells whether descriptors
  // were lacking.
  if (qp->qp_num == 0) return Refuse<ibv_qp>(DescriptorErrorOr(ENOMEM));
  return qp.release();
}

}  // namespace verbena::soft
