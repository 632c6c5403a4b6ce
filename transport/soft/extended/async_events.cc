#include "transport/soft/extended/async_events.h"

#include <cstdint>

#include "transport/soft/base/event_queue.h"
#include "transport/soft/base/live_handles.h"
#include "transport/soft/device/context.h"
#include "transport/soft/extended/address_watch.h"
#include "transport/soft/queues/completion_queue.h"
#include "transport/soft/queues/queue_pair.h"
#include "transport/soft/queues/receive_queue.h"

namespace verbena::soft {
namespace {

// Events that are about the port, and carry its number.
bool IsOfPort(ibv_event_type type) {
  return type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_PORT_ERR ||
         type == IBV_EVENT_GID_CHANGE;
}

}  // namespace

// Takes the oldest event, and gives its object the type that the event has.
int GetAsyncEvent(ibv_context* context, ibv_async_event* out) {
  EventQueue::Event event;
  // Watches addresses from now on: a program that reads no events needs no
  // socket for that.
  AddressWatch::Get().Start();
  if (!Context::From(context)->async_events().Get(event)) return -1;
  out->event_type = static_cast<ibv_event_type>(event.type);
  if (IsOfPort(out->event_type)) {
    out->element.port_num =
        static_cast<int>(reinterpret_cast<uintptr_t>(event.object));
    return 0;
  }
  switch (out->event_type) {
    case IBV_EVENT_CQ_ERR:
      out->element.cq = static_cast<ibv_cq*>(event.object);
      break;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      out->element.srq = static_cast<ibv_srq*>(event.object);
      break;
    default:
      out->element.qp = static_cast<ibv_qp*>(event.object);
  }
  return 0;
}

// The object comes from the user, so it is looked up before it is followed.
void AckAsyncEvent(ibv_async_event* event) {
  const auto acknowledge = [](ibv_context* context,
                              EventQueue::Source& source) {
    Context::From(context)->async_events().Acknowledge(source, 1);
  };
  // Nobody waits for these, because ports are not destroyed.
  if (IsOfPort(event->event_type)) return;
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
      if (!IsLive(event->element.cq)) return;
      acknowledge(event->element.cq->context,
                  CompletionQueue::From(event->element.cq)->async_source());
      return;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      if (!IsLive(event->element.srq)) return;
      acknowledge(event->element.srq->context,
                  SharedReceiveQueue::From(event->element.srq)->async_source());
      return;
    default:
      if (!IsLive(event->element.qp)) return;
      acknowledge(event->element.qp->context,
                  QueuePair::From(event->element.qp)->async_source());
  }
}

}  // namespace verbena::soft
