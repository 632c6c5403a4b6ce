#include "transport/faulty/faulty_verbs.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "transport/faulty/faulty_entry.h"
#include "transport/faulty/faulty_state.h"

namespace verbena::transport {
namespace {

FaultyState& State() { return FaultyState::Get(); }

constexpr FailsWith kErrno = FailsWith::kErrno;

template <EntryName kName, auto kEntry, FailsWith kFailsWith = kErrno>
constexpr auto kMay = Entry<kName, kEntry, kFailsWith, true>::Call;
template <EntryName kName, auto kEntry, FailsWith kFailsWith = kErrno>
constexpr auto kNever = Entry<kName, kEntry, kFailsWith, false>::Call;
template <EntryName kName, auto kEntry>
constexpr auto kMakes =
    Entry<kName, kEntry, kErrno, true, Objects::kMakes>::Call;
template <EntryName kName, auto kEntry>
constexpr auto kEnds =
    Entry<kName, kEntry, kErrno, false, Objects::kEnds>::Call;

// The data path.

// Polls the device below, then hands out what is due. That may be more than was
// polled just now, if some completions were late.
int PollCq(ibv_cq* cq, int count, ibv_wc* out) {
  const ibv_context_ops original = State().Original(cq->context);
  // Asking for no completions only runs a software device. Queues made through
  // the provider's own table share the context, and pass.
  if (count <= 0 || !State().Owns(cq)) {
    return original.poll_cq(cq, count, out);
  }
  // Random faults spare polling, without which nobody can go on.
  if (State().OnCall("poll_cq", false) != 0) return -1;
  // A device that is gone reports nothing, not even what it had flushed.
  if (State().DeviceIsGone()) return 0;
  std::array<ibv_wc, 16> reported;
  const int polled = original.poll_cq(
      cq, std::min(count, static_cast<int>(reported.size())), reported.data());
  if (polled < 0) return polled;
  return State().Filter(cq, count, reported.data(), polled, out);
}

int ReqNotifyCq(ibv_cq* cq, int solicited_only) {
  if (State().Owns(cq)) {
    const int error = State().OnVerb("req_notify_cq", true);
    if (error != 0) return error;
    // A thread that arms the queue and polls once more must find what is late,
    // or it would sleep for ever.
    State().EndDelays(cq);
  }
  return State().Original(cq->context).req_notify_cq(cq, solicited_only);
}

int PostSend(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad) {
  if (State().Owns(qp)) {
    const int error = State().OnVerb("post_send", true);
    if (error != 0) {
      *bad = request;
      return error;
    }
    // Before the device sees the request, because it may copy inline bytes at
    // once.
    State().OnPostSend(qp, request);
  }
  return State().Original(qp->context).post_send(qp, request, bad);
}

int PostRecv(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr** bad) {
  if (State().Owns(qp)) {
    const int error = State().OnVerb("post_recv", true);
    if (error != 0) {
      *bad = request;
      return error;
    }
  }
  return State().Original(qp->context).post_recv(qp, request, bad);
}

int PostSrqRecv(ibv_srq* srq, ibv_recv_wr* request, ibv_recv_wr** bad) {
  if (State().Owns(srq)) {
    const int error = State().OnVerb("post_srq_recv", true);
    if (error != 0) {
      *bad = request;
      return error;
    }
  }
  return State().Original(srq->context).post_srq_recv(srq, request, bad);
}

// Control verbs that make or end what the state knows.

ibv_context* OpenDevice(ibv_device* device) {
  ibv_context* const context =
      kMay<"open_device", &VerbsOps::open_device>(device);
  PatchDataPath(context);
  return context;
}

int CloseDevice(ibv_context* context) {
  // The pointers are put back first, so that the device below finds its own
  // when it closes the context.
  State().Forget(context);
  const int error = kNever<"close_device", &VerbsOps::close_device>(context);
  // The context lives on, so its data path leads through the plan again.
  if (error != 0) PatchDataPath(context);
  return error;
}

// Lowers what the device below reports, and never raises it, because the device
// below still has to make the objects.
int QueryDevice(ibv_context* context, ibv_device_attr* out) {
  const int error = kMay<"query_device", &VerbsOps::query_device>(context, out);
  const DeviceNumbers* const numbers = State().Numbers();
  if (error != 0 || numbers == nullptr) return error;
  out->max_qp_wr = std::min(out->max_qp_wr, numbers->work_requests);
  out->max_srq_wr = std::min(out->max_srq_wr, numbers->shared_receives);
  // Without shared receives there are no such queues at all, as on irdma and
  // erdma.
  if (numbers->shared_receives == 0) out->max_srq = 0;
  out->max_cqe = std::min(out->max_cqe, numbers->completions);
  out->max_qp_rd_atom = std::min(out->max_qp_rd_atom, numbers->reads_answered);
  out->max_qp_init_rd_atom =
      std::min(out->max_qp_init_rd_atom, numbers->reads_made);
  return 0;
}

// The queues are bounded as query_device says.
ibv_cq* CreateCq(ibv_context* context, int cqe, void* cq_context,
                 ibv_comp_channel* channel, int vector) {
  const DeviceNumbers* const numbers = State().Numbers();
  if (numbers != nullptr && cqe > numbers->completions) {
    errno = EINVAL;
    return nullptr;
  }
  return kMakes<"create_cq", &VerbsOps::create_cq>(context, cqe, cq_context,
                                                   channel, vector);
}

ibv_srq* CreateSrq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
  const DeviceNumbers* const numbers = State().Numbers();
  if (numbers != nullptr &&
      attributes->attr.max_wr >
          static_cast<uint32_t>(numbers->shared_receives)) {
    errno = EINVAL;
    return nullptr;
  }
  return kMakes<"create_srq", &VerbsOps::create_srq>(pd, attributes);
}

ibv_qp* CreateQp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  ibv_qp* const qp = kMay<"create_qp", &VerbsOps::create_qp>(pd, attributes);
  if (qp != nullptr) State().OwnQueuePair(qp);
  return qp;
}

}  // namespace

void PatchDataPath(ibv_context* context) {
  if (context == nullptr) return;
  ibv_context_ops ops = {};
  ops.poll_cq = PollCq;
  ops.post_recv = PostRecv;
  ops.post_send = PostSend;
  ops.post_srq_recv = PostSrqRecv;
  ops.req_notify_cq = ReqNotifyCq;
  State().Patch(context, ops);
}

// Entries that end objects, acknowledge or deliver fail only when the plan
// names them. Others may fail at random as well.
VerbsOps FaultyVerbs(const VerbsOps& base) {
  constexpr FailsWith kMinusOne = FailsWith::kMinusOne;
  VerbsOps ops = base;
  ops.alloc_pd = kMakes<"alloc_pd", &VerbsOps::alloc_pd>;
  ops.close_device = CloseDevice;
  ops.create_comp_channel =
      kMakes<"create_comp_channel", &VerbsOps::create_comp_channel>;
  ops.create_cq = CreateCq;
  ops.create_qp = CreateQp;
  ops.create_srq = CreateSrq;
  ops.dealloc_pd = kEnds<"dealloc_pd", &VerbsOps::dealloc_pd>;
  ops.dereg_mr = kEnds<"dereg_mr", &VerbsOps::dereg_mr>;
  ops.destroy_comp_channel =
      kEnds<"destroy_comp_channel", &VerbsOps::destroy_comp_channel>;
  ops.destroy_cq = kEnds<"destroy_cq", &VerbsOps::destroy_cq>;
  ops.destroy_qp = kEnds<"destroy_qp", &VerbsOps::destroy_qp>;
  ops.destroy_srq = kEnds<"destroy_srq", &VerbsOps::destroy_srq>;
  ops.get_async_event =
      kNever<"get_async_event", &VerbsOps::get_async_event, kMinusOne>;
  ops.get_cq_event = kNever<"get_cq_event", &VerbsOps::get_cq_event, kMinusOne>;
  ops.get_device_list = kMay<"get_device_list", &VerbsOps::get_device_list>;
  ops.modify_qp = kMay<"modify_qp", &VerbsOps::modify_qp>;
  ops.modify_srq = kMay<"modify_srq", &VerbsOps::modify_srq>;
  ops.open_device = OpenDevice;
  ops.query_device = QueryDevice;
  ops.query_gid = kMay<"query_gid", &VerbsOps::query_gid, kMinusOne>;
  ops.query_port = kMay<"query_port", &VerbsOps::query_port>;
  ops.query_qp = kMay<"query_qp", &VerbsOps::query_qp>;
  ops.query_srq = kMay<"query_srq", &VerbsOps::query_srq>;
  ops.reg_mr = kMakes<"reg_mr", &VerbsOps::reg_mr>;
  return ops;
}

}  // namespace verbena::transport
