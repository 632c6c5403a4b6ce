#include "transport/faulty/faulty_cm.h"

#include <cerrno>
#include <utility>

#include "transport/faulty/faulty_entry.h"
#include "transport/faulty/faulty_state.h"
#include "transport/faulty/faulty_verbs.h"

namespace verbena::transport {
namespace {

FaultyState& State() { return FaultyState::Get(); }

template <EntryName kName, auto kEntry>
constexpr auto kMay = Entry<kName, kEntry, FailsWith::kMinusOne, true>::Call;
template <EntryName kName, auto kEntry>
constexpr auto kEnds =
    Entry<kName, kEntry, FailsWith::kMinusOne, false, Objects::kEnds>::Call;
template <EntryName kName, auto kEntry>
constexpr auto kNever = Entry<kName, kEntry, FailsWith::kMinusOne, false>::Call;

int BindAddr(rdma_cm_id* id, sockaddr* address) {
  const int result = kMay<"bind_addr", &CmOps::bind_addr>(id, address);
  // Binding gives the id its device, which no other thread uses yet.
  PatchDataPath(id->verbs);
  return result;
}

int CreateId(rdma_event_channel* channel, rdma_cm_id** id, void* context,
             rdma_port_space port_space) {
  const int result =
      kMay<"create_id", &CmOps::create_id>(channel, id, context, port_space);
  if (result == 0) State().Own(*id);
  return result;
}

void DestroyEventChannel(rdma_event_channel* channel) {
  // Before it ends, because another object may get its address at once.
  State().Disown(channel);
  State().base().cm.destroy_event_channel(channel);
}

// Whether the device that is played refuses such a queue pair. Sets errno.
bool IsTooMuch(const ibv_qp_cap& wanted) {
  const DeviceNumbers* const numbers = State().Numbers();
  if (numbers == nullptr) return false;
  // No device reports its inline bytes: create_qp refuses those that want more.
  const auto most = static_cast<uint32_t>(numbers->work_requests);
  if (wanted.max_inline_data <= numbers->inline_bytes &&
      wanted.max_send_wr <= most && wanted.max_recv_wr <= most) {
    return false;
  }
  errno = numbers->says_enomem ? ENOMEM : EINVAL;
  return true;
}

// Whether as many READs are wanted as the device has; librdmacm refuses more.
bool HasReads(const rdma_conn_param* wanted) {
  const DeviceNumbers* const numbers = State().Numbers();
  if (numbers == nullptr || wanted == nullptr ||
      (wanted->responder_resources <= numbers->reads_answered &&
       wanted->initiator_depth <= numbers->reads_made)) {
    return true;
  }
  errno = EINVAL;
  return false;
}

int Accept(rdma_cm_id* id, rdma_conn_param* parameters) {
  if (!HasReads(parameters)) return -1;
  return kMay<"accept", &CmOps::accept>(id, parameters);
}

int Connect(rdma_cm_id* id, rdma_conn_param* parameters) {
  if (!HasReads(parameters)) return -1;
  return kMay<"connect", &CmOps::connect>(id, parameters);
}

// The connection manager works on without its device, but for this function,
// which makes an object of the device.
int CreateQp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attributes) {
  if (State().DeviceIsGone()) {
    errno = EIO;
    return -1;
  }
  if (IsTooMuch(attributes->cap)) return -1;
  const int result =
      kMay<"cm.create_qp", &CmOps::create_qp>(id, pd, attributes);
  if (result == 0) State().OwnQueuePair(id->qp);
  return result;
}

void DestroyQp(rdma_cm_id* id) {
  // Before it ends, as in DestroyEventChannel().
  State().Disown(id->qp);
  State().base().cm.destroy_qp(id);
}

// Acknowledges an event that nobody will read, and destroys the new id of a
// connection request, which nobody would own.
void Drop(rdma_cm_event* event) {
  // Read before the acknowledgement, which frees the event.
  rdma_cm_id* const id =
      event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->id : nullptr;
  State().base().cm.ack_cm_event(event);
  // After the acknowledgement, because destroy_id waits until every event of
  // the id is acknowledged.
  if (id != nullptr) State().base().cm.destroy_id(id);
}

void Replace(rdma_cm_event& event,
             std::pair<rdma_cm_event_type, int> replacement) {
  event.event = replacement.first;
  event.status = replacement.second;
  event.param.conn = {};  // A failure brings no parameters.
}

// Takes events from the provider below until the plan lets one through. Dropped
// events are consumed, so the program sees the next one.
int GetCmEvent(rdma_event_channel* channel, rdma_cm_event** event) {
  while (true) {
    const int result =
        kNever<"get_cm_event", &CmOps::get_cm_event>(channel, event);
    if (result != 0) return result;
    rdma_cm_event& got = **event;
    if (got.id != nullptr) PatchDataPath(got.id->verbs);
    const FaultPlan::Event fault = State().OnEvent(got.event);
    if (fault.drop) {
      Drop(&got);
      continue;
    }
    if (fault.replacement.has_value()) Replace(got, *fault.replacement);
    // Owned from here on, because the program has to destroy it.
    if (got.event == RDMA_CM_EVENT_CONNECT_REQUEST) State().Own(got.id);
    return 0;
  }
}

}  // namespace

// Random faults spare the entries that destroy, acknowledge or deliver events,
// because no program can go on without them.
CmOps FaultyCm(const CmOps& base) {
  CmOps ops = base;
  ops.accept = Accept;
  ops.bind_addr = BindAddr;
  ops.connect = Connect;
  ops.create_event_channel =
      Entry<"create_event_channel", &CmOps::create_event_channel,
            FailsWith::kMinusOne, true, Objects::kMakes>::Call;
  ops.create_id = CreateId;
  ops.destroy_event_channel = DestroyEventChannel;
  ops.create_qp = CreateQp;
  ops.destroy_id = kEnds<"destroy_id", &CmOps::destroy_id>;
  ops.destroy_qp = DestroyQp;
  ops.disconnect = kMay<"disconnect", &CmOps::disconnect>;
  ops.get_cm_event = GetCmEvent;
  ops.listen = kMay<"listen", &CmOps::listen>;
  ops.migrate_id = kMay<"migrate_id", &CmOps::migrate_id>;
  ops.reject = kMay<"reject", &CmOps::reject>;
  ops.resolve_addr = kMay<"resolve_addr", &CmOps::resolve_addr>;
  ops.resolve_route = kMay<"resolve_route", &CmOps::resolve_route>;
  ops.set_option = kMay<"set_option", &CmOps::set_option>;
  return ops;
}

}  // namespace verbena::transport
