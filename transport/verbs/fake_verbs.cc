#include "transport/verbs/fake_verbs.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"

namespace verbena::transport {

// The data path goes through ibv_context::ops, so these five pointers stand
// there and not in the table.
FakeVerbs::FakeVerbs() : ibv_context() {
  device = &device_;
  device_.transport_type = IBV_TRANSPORT_IB;
  ops.post_send = &PostSend;
  ops.post_srq_recv = &PostShared;
  ops.post_recv = &PostOwn;
  ops.poll_cq = &PollCompletions;
  ops.req_notify_cq = &RequestNotify;
  qp_.context = this;
  qp_.qp_num = 7;
}

FakeVerbs::~FakeVerbs() { CHECK(live_.empty()) << "leaked verbs objects"; }

// Makes an object and keeps its address, so that the destructor notices leaks
// and Destroy() a second call.
template <typename T>
T* FakeVerbs::Make(ibv_context* context, std::string call) {
  FakeVerbs& device = From(context);
  // Before the call is noted: `calls` holds only those that made an object.
  if (device.make_error != 0) {
    errno = device.make_error;
    return nullptr;
  }
  device.calls.push_back(std::move(call));
  T* const object = new T();
  object->context = context;
  device.live_.insert(object);
  return object;
}

template <typename T>
int FakeVerbs::Destroy(T* object) {
  FakeVerbs& device = From(object->context);
  const int error = device.destroy_error;
  // EIO says that the device has gone and has taken the object along, so the
  // object ends here too: see IsGone().
  if (error != 0 && error != EIO) return error;
  CHECK_EQ(device.live_.erase(object), 1u) << "destroyed twice";
  delete object;
  return error;
}

// Plays a device that tells its inline bytes only by refusing more.
int FakeVerbs::CreateCmQp(rdma_cm_id* id, ibv_pd* pd,
                          ibv_qp_init_attr* wanted) {
  FakeVerbs& device = From(pd->context);
  // Noted before it is refused, because tests look at the numbers that were
  // tried.
  device.inline_asked.push_back(wanted->cap.max_inline_data);
  if (wanted->cap.max_inline_data > device.inline_bytes) {
    errno = device.inline_refusal;
    return -1;
  }
  id->qp = &device.qp_;
  return 0;
}

ibv_comp_channel* FakeVerbs::MakeChannel(ibv_context* context) {
  ibv_comp_channel* const channel =
      Make<ibv_comp_channel>(context, "create_comp_channel");
  if (channel == nullptr) return nullptr;
  // A semaphore, so that it can be read as often as there are events.
  channel->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  CHECK(channel->fd >= 0);
  return channel;
}

int FakeVerbs::DestroyChannel(ibv_comp_channel* channel) {
  const int fd = channel->fd;
  const int error = Destroy(channel);
  // A channel that could not be destroyed keeps its descriptor.
  if (error == 0) close(fd);
  return error;
}

void FakeVerbs::PushEvent(ibv_comp_channel* channel, ibv_cq* cq) {
  events_.push_back(cq);
  // The descriptor becomes readable, as that of a device does.
  const uint64_t one = 1;
  CHECK(write(channel->fd, &one, sizeof(one)) == sizeof(one));
}

// CompletionChannel makes the descriptor nonblocking, so read() fails with
// EAGAIN if there is no event.
int FakeVerbs::GetEvent(ibv_comp_channel* channel, ibv_cq** cq,
                        void** cq_context) {
  FakeVerbs& device = From(channel->context);
  ++device.looks;
  uint64_t one = 0;
  if (read(channel->fd, &one, sizeof(one)) < 0) return -1;
  *cq = device.events_.front();
  *cq_context = (*cq)->cq_context;
  device.events_.pop_front();
  ++device.unacked;
  return 0;
}

// Notes every request of the chain with the number of the call, so that tests
// see how many requests share a doorbell.
int FakeVerbs::PostSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  FakeVerbs& device = From(qp->context);
  if (device.post_error != 0) {
    *bad = wr;
    return device.post_error;
  }
  for (; wr != nullptr; wr = wr->next) {
    // FakeWorkRequest has room for one element.
    CHECK(wr->num_sge <= 1);
    FakeWorkRequest request;
    request.wr_id = wr->wr_id;
    request.opcode = wr->opcode;
    request.flags = wr->send_flags;
    if (wr->num_sge == 1) {
      request.address = wr->sg_list->addr;
      request.length = wr->sg_list->length;
      request.lkey = wr->sg_list->lkey;
    }
    // `wr.rdma` is part of a union, and means nothing in a SEND.
    if (wr->opcode != IBV_WR_SEND) {
      request.remote_address = wr->wr.rdma.remote_addr;
      request.rkey = wr->wr.rdma.rkey;
    }
    request.doorbell = device.doorbells_;
    device.sends.push_back(request);
  }
  ++device.doorbells_;
  return 0;
}

int FakeVerbs::PostShared(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  return From(srq->context).PostReceive(/*qp_num=*/0, wr, bad);
}

int FakeVerbs::PostOwn(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  return From(qp->context).PostReceive(qp->qp_num, wr, bad);
}

// Notes every request of the chain. A number of 0 stands for the shared queue.
int FakeVerbs::PostReceive(uint32_t qp_num, ibv_recv_wr* wr,
                           ibv_recv_wr** bad) {
  if (post_error != 0) {
    *bad = wr;
    return post_error;
  }
  for (; wr != nullptr; wr = wr->next) {
    CHECK(wr->num_sge == 1);
    FakeWorkRequest request;
    request.wr_id = wr->wr_id;
    request.address = wr->sg_list->addr;
    request.length = wr->sg_list->length;
    request.lkey = wr->sg_list->lkey;
    request.doorbell = doorbells_;
    request.qp_num = qp_num;
    receives.push_back(request);
  }
  ++doorbells_;
  return 0;
}

// Any queue hands out what the test has put into `completions`.
int FakeVerbs::PollCompletions(ibv_cq* cq, int count, ibv_wc* completions) {
  FakeVerbs& device = From(cq->context);
  int taken = 0;
  while (taken < count && !device.completions.empty()) {
    completions[taken++] = device.completions.front();
    device.completions.pop_front();
  }
  return taken;
}

int FakeVerbs::RequestNotify(ibv_cq* cq, int solicited_only) {
  FakeVerbs& device = From(cq->context);
  CHECK(solicited_only == 0);
  ++device.armed;
  return device.notify_error;
}

// Has the entries that the code under test calls; the others are null, so that
// a call of one is noticed.
VerbsOps FakeVerbs::Table() {
  VerbsOps table = {};
  table.ack_cq_events = [](ibv_cq* cq, unsigned int count) {
    From(cq->context).unacked -= static_cast<int>(count);
  };
  table.alloc_pd = [](ibv_context* context) {
    return Make<ibv_pd>(context, "alloc_pd");
  };
  table.create_comp_channel = &MakeChannel;
  table.create_cq = [](ibv_context* context, int cqe, void* cq_context,
                       ibv_comp_channel* channel, int /*comp_vector*/) {
    ibv_cq* const cq = Make<ibv_cq>(
        context, absl::StrCat("create_cq ", cqe, " ",
                              channel != nullptr ? "channel" : "alone"));
    if (cq != nullptr) cq->cq_context = cq_context;
    return cq;
  };
  table.create_srq = [](ibv_pd* pd, ibv_srq_init_attr* attributes) {
    return Make<ibv_srq>(
        pd->context, absl::StrCat("create_srq ", attributes->attr.max_wr, " ",
                                  attributes->attr.max_sge));
  };
  table.dealloc_pd = &Destroy<ibv_pd>;
  table.dereg_mr = &Destroy<ibv_mr>;
  table.destroy_comp_channel = &DestroyChannel;
  table.destroy_cq = &Destroy<ibv_cq>;
  table.destroy_srq = &Destroy<ibv_srq>;
  table.get_cq_event = &GetEvent;
  table.query_device = [](ibv_context* context, ibv_device_attr* attributes) {
    *attributes = From(context).attributes;
    return 0;
  };
  table.get_device_name = [](ibv_device*) -> const char* { return "fake"; };
  table.reg_mr = [](ibv_pd* pd, void* addr, size_t length, int access) {
    ibv_mr* const mr =
        Make<ibv_mr>(pd->context, absl::StrCat("reg_mr ", length, " ", access));
    if (mr == nullptr) return mr;
    FakeVerbs& device = From(pd->context);
    mr->pd = pd;
    mr->addr = addr;
    mr->length = length;
    mr->lkey = device.next_key_++;
    // Other than the lkey, so that a test notices when they are mixed up.
    mr->rkey = mr->lkey + 0x10000;
    return mr;
  };
  return table;
}

}  // namespace verbena::transport
