#include "transport/verbs/test_end.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <cerrno>

#include "absl/time/time.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"

namespace verbena::transport {
namespace {

// Far longer than anything takes, even on an emulated processor. Where a
// network loses every hundredth packet, TCP needs some seconds for a mebibyte.
constexpr absl::Duration kPatience = absl::Seconds(30);

// How long it is watched whether a device does what it must not do.
constexpr absl::Duration kQuiet = absl::Milliseconds(20);

bool IsReadable(int fd, absl::Duration patience) {
  pollfd wait = {fd, POLLIN, 0};
  return poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(patience))) >
         0;
}

}  // namespace

// Makes the objects in the order in which one needs the other: domain, channel,
// queues, queue pair, memory.
TestEnd::TestEnd(const VerbsOps& ops, ibv_context* open, const TestGid& own,
                 const TestEndOptions& wanted)
    : verbs(ops), options(wanted), context(open), gid(own) {
  pd = verbs.alloc_pd(context);
  CHECK(pd != nullptr) << "errno " << errno;
  if (options.with_channel) channel = verbs.create_comp_channel(context);
  CreateCompletionQueue();
  if (options.shared_receives > 0) {
    ibv_srq_init_attr attributes = {};
    attributes.attr.max_wr = options.shared_receives;
    attributes.attr.max_sge = options.entries;
    srq = verbs.create_srq(pd, &attributes);
    CHECK(srq != nullptr) << "errno " << errno;
  }
  CreateQueuePair();
  void* const mapped =
      mmap(nullptr, options.memory_bytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(mapped != MAP_FAILED) << "errno " << errno;
  // Whole pages, so that no memory of the heap lies beside them: see
  // MappedMemory.
  memory = static_cast<std::byte*>(mapped);
  mr = verbs.reg_mr(pd, memory, options.memory_bytes, options.access);
  CHECK(mr != nullptr) << "errno " << errno;
}

// An extended queue is also an ordinary one, so `cq` is set in both cases.
void TestEnd::CreateCompletionQueue() {
  if (options.extended_completions) {
    ibv_cq_init_attr_ex attributes = {};
    attributes.cqe = static_cast<uint32_t>(options.completions);
    attributes.cq_context = this;
    attributes.channel = channel;
    attributes.wc_flags = options.fields;
    extended_cq = ibv_create_cq_ex(context, &attributes);
    CHECK(extended_cq != nullptr) << "errno " << errno;
    cq = ibv_cq_ex_to_cq(extended_cq);
    return;
  }
  cq = verbs.create_cq(context, options.completions, this, channel, 0);
  CHECK(cq != nullptr) << "errno " << errno;
}

// Fills the extended attributes in both cases, because the ordinary ones are
// their beginning.
void TestEnd::CreateQueuePair() {
  ibv_qp_init_attr_ex attributes = {};
  attributes.send_cq = attributes.recv_cq = cq;
  attributes.srq = srq;
  attributes.cap = {options.send_depth, options.receive_depth, options.entries,
                    options.entries, options.inline_bytes};
  attributes.qp_type = options.type;
  attributes.sq_sig_all = options.signal_all ? 1 : 0;
  if (options.operations == 0) {
    // The extended attributes begin as the others do.
    qp = verbs.create_qp(pd, reinterpret_cast<ibv_qp_init_attr*>(&attributes));
    CHECK(qp != nullptr) << "errno " << errno;
    return;
  }
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attributes.pd = pd;
  attributes.send_ops_flags = options.operations;
  qp = ibv_create_qp_ex(context, &attributes);
  CHECK(qp != nullptr) << "errno " << errno;
  extended_qp = verbs.qp_to_qp_ex(qp);
  CHECK(extended_qp != nullptr);
}

TestEnd::~TestEnd() {
  // The peer may outlive this end, and must not run its protocol then.
  if (peer != nullptr) peer->peer = nullptr;
  // Objects go before those that they were made from, which verbs demand.
  for (ibv_ah* ah : handles_) CHECK_EQ(verbs.destroy_ah(ah), 0);
  if (qp != nullptr) CHECK_EQ(verbs.destroy_qp(qp), 0);
  if (mr != nullptr) CHECK_EQ(verbs.dereg_mr(mr), 0);
  if (srq != nullptr) CHECK_EQ(verbs.destroy_srq(srq), 0);
  if (cq != nullptr) CHECK_EQ(verbs.destroy_cq(cq), 0);
  if (channel != nullptr) CHECK_EQ(verbs.destroy_comp_channel(channel), 0);
  CHECK_EQ(verbs.dealloc_pd(pd), 0);
  CHECK_EQ(verbs.close_device(context), 0);
  munmap(memory, options.memory_bytes);
}

// Fills every field that a transition may need. MaskFor() chooses those that
// the type of queue pair has, so one function serves all transitions.
ibv_qp_attr TestEnd::AttributesFor(ibv_qp_state to) const {
  const TestEnd& other = peer != nullptr ? *peer : *this;
  ibv_qp_attr attributes = {};
  attributes.qp_state = to;
  attributes.port_num = options.port;
  attributes.qp_access_flags = static_cast<unsigned int>(options.access);
  attributes.path_mtu = options.mtu;
  attributes.dest_qp_num = peer_number != 0 ? peer_number : other.qp->qp_num;
  attributes.max_dest_rd_atomic = options.reads_accepted;
  attributes.min_rnr_timer = options.min_rnr_timer;
  attributes.ah_attr = Path(other.gid.gid);
  attributes.timeout = options.timeout;
  attributes.retry_cnt = options.retry_count;
  attributes.rnr_retry = options.rnr_retry;
  attributes.max_rd_atomic = options.reads_max;
  attributes.qkey = kTestQkey;
  return attributes;
}

// Follows the table of modify_qp: only connected types have a peer, and only
// reliable ones have timeouts, retries and READs.
int TestEnd::MaskFor(ibv_qp_state to) const {
  const bool connected = options.type != IBV_QPT_UD;
  const bool reliable = options.type == IBV_QPT_RC;
  switch (to) {
    case IBV_QPS_INIT:
      return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
             (connected ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY);
    case IBV_QPS_RTR:
      return IBV_QP_STATE |
             (connected ? IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                              IBV_QP_RQ_PSN
                        : 0) |
             (reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
    case IBV_QPS_RTS:
      return IBV_QP_STATE | IBV_QP_SQ_PSN |
             (reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_MAX_QP_RD_ATOMIC
                       : 0);
    default:
      return IBV_QP_STATE;
  }
}

int TestEnd::To(ibv_qp_state to) {
  ibv_qp_attr attributes = AttributesFor(to);
  return verbs.modify_qp(qp, &attributes, MaskFor(to));
}

void TestEnd::BringTo(ibv_qp_state state) {
  if (state == IBV_QPS_RESET) return;
  // Verbs allow no step to be left out.
  for (const ibv_qp_state next : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    CHECK_EQ(To(next), 0);
    if (next == state) return;
  }
  CHECK_EQ(To(state), 0);
}

ibv_qp_state TestEnd::State() const {
  ibv_qp_attr attributes = {};
  ibv_qp_init_attr init_attributes = {};
  CHECK_EQ(verbs.query_qp(qp, &attributes, IBV_QP_STATE, &init_attributes), 0);
  return attributes.qp_state;
}

ibv_qp_cap TestEnd::Granted() const {
  ibv_qp_attr attributes = {};
  ibv_qp_init_attr init_attributes = {};
  CHECK_EQ(verbs.query_qp(qp, &attributes, IBV_QP_CAP, &init_attributes), 0);
  return init_attributes.cap;
}

// Polls this end for the completion, and lets the other run its protocol
// meanwhile: on the software device only a thread that polls makes progress.
ibv_wc TestEnd::Wait(TestEnd* other) {
  if (other == nullptr) other = peer;
  const absl::Time deadline = base::Now() + kPatience;
  ibv_wc completion = {};
  while (!PollOnce(completion)) {
    if (base::Now() > deadline) {
      ADD_FAILURE() << "no completion came";
      // A status that no test expects, so that the caller fails as well.
      completion.status = IBV_WC_GENERAL_ERR;
      return completion;
    }
    if (other != nullptr) other->RunProtocol();
  }
  return completion;
}

ibv_wc_status TestEnd::Outcome(uint64_t wr_id) {
  const ibv_wc completion = Wait();
  EXPECT_EQ(completion.wr_id, wr_id);
  return completion.status;
}

// By time, for devices whose work goes on by itself.
bool TestEnd::StaysQuiet() {
  const absl::Time deadline = base::Now() + kQuiet;
  ibv_wc completion = {};
  while (base::Now() < deadline) {
    if (PollOnce(completion)) return false;
    if (peer != nullptr) peer->RunProtocol();
  }
  return true;
}

// By passes, for a software device that works only while it is polled.
bool TestEnd::StaysQuiet(TestEnd* other, int passes) {
  ibv_wc completion = {};
  for (int i = 0; i < passes; ++i) {
    if (PollOnce(completion)) return false;
    if (other != nullptr) other->RunProtocol();
  }
  return true;
}

// Waits by poll() first, because get_async_event blocks when there is none.
int TestEnd::NextAsyncEvent(int wait_ms) {
  if (!IsReadable(context->async_fd, absl::Milliseconds(wait_ms))) return -1;
  ibv_async_event event = {};
  CHECK_EQ(verbs.get_async_event(context, &event), 0);
  // Acknowledged, because the object of an event can't be destroyed before
  // that.
  verbs.ack_async_event(&event);
  return event.event_type;
}

bool TestEnd::HasNoAsyncEvent() {
  return !IsReadable(context->async_fd, kQuiet);
}

bool TestEnd::ChannelIsReadable(bool expected) {
  // An event that must not come is awaited only for a moment, so that tests
  // stay fast.
  return IsReadable(channel->fd, expected ? kPatience : kQuiet);
}

void TestEnd::TakeCompletionEvent() {
  ASSERT_TRUE(ChannelIsReadable(true));
  ibv_cq* of_event = nullptr;
  void* cq_context = nullptr;
  ASSERT_EQ(verbs.get_cq_event(channel, &of_event, &cq_context), 0);
  EXPECT_EQ(of_event, cq);
  EXPECT_EQ(cq_context, this);
  verbs.ack_cq_events(of_event, 1);
}

// A global route, because RoCE has no other.
ibv_ah_attr TestEnd::Path(const ibv_gid& to) const {
  ibv_ah_attr path = {};
  path.is_global = 1;
  path.port_num = options.port;
  path.grh.dgid = to;
  path.grh.sgid_index = gid.index;
  path.grh.hop_limit = 64;
  return path;
}

ibv_ah* TestEnd::Handle(const ibv_gid& to) {
  ibv_ah_attr path = Path(to);
  ibv_ah* const ah = verbs.create_ah(pd, &path);
  CHECK(ah != nullptr) << "errno " << errno;
  handles_.push_back(ah);
  return ah;
}

int TestEnd::SendTo(const TestEnd& to, uint64_t wr_id, size_t offset,
                    size_t length, unsigned int flags) {
  return SendDatagram({.ah = Handle(to.gid.gid),
                       .number = to.qp->qp_num,
                       .wr_id = wr_id,
                       .offset = offset,
                       .length = length,
                       .flags = flags});
}

void Connect(TestEnd& a, TestEnd& b) {
  a.peer = &b;
  b.peer = &a;
  a.BringTo(IBV_QPS_RTS);
  b.BringTo(IBV_QPS_RTS);
}

}  // namespace verbena::transport
