#include "transport/soft/test_end.h"

#include <poll.h>
#include <sys/mman.h>

#include <cerrno>
#include <chrono>

#include "transport/base/check.h"
#include "transport/soft/verbs/verbs_table.h"

namespace verbena::soft {

TestEnd::TestEnd(const TestEndOptions& wanted)
    : verbs(SoftVerbsOps()), options(wanted) {
  ibv_device** devices = verbs.get_device_list(nullptr);
  context = verbs.open_device(devices[0]);
  verbs.free_device_list(devices);
  CHECK(context != nullptr);
  pd = verbs.alloc_pd(context);
  if (options.with_channel) channel = verbs.create_comp_channel(context);
  cq = verbs.create_cq(context, options.completions, this, channel, 0);
  CHECK(cq != nullptr);
  if (options.shared_receives > 0) {
    ibv_srq_init_attr attributes = {};
    attributes.attr.max_wr = options.shared_receives;
    attributes.attr.max_sge = options.entries;
    srq = verbs.create_srq(pd, &attributes);
    CHECK(srq != nullptr);
  }
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = cq;
  attributes.srq = srq;
  attributes.cap = {options.send_depth, options.receive_depth, options.entries,
                    options.entries, options.inline_bytes};
  attributes.qp_type = options.type;
  attributes.sq_sig_all = options.signal_all ? 1 : 0;
  qp = verbs.create_qp(pd, &attributes);
  CHECK(qp != nullptr) << "errno " << errno;
  memory = static_cast<std::byte*>(mmap(nullptr, options.memory_bytes,
                                        PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mr = verbs.reg_mr(pd, memory, options.memory_bytes, options.access);
  CHECK(mr != nullptr) << "errno " << errno;
}

TestEnd::~TestEnd() {
  if (qp != nullptr) CHECK_EQ(verbs.destroy_qp(qp), 0);
  if (mr != nullptr) CHECK_EQ(verbs.dereg_mr(mr), 0);
  if (srq != nullptr) CHECK_EQ(verbs.destroy_srq(srq), 0);
  CHECK_EQ(verbs.destroy_cq(cq), 0);
  if (channel != nullptr) CHECK_EQ(verbs.destroy_comp_channel(channel), 0);
  CHECK_EQ(verbs.dealloc_pd(pd), 0);
  CHECK_EQ(verbs.close_device(context), 0);
  munmap(memory, options.memory_bytes);
}

int TestEnd::ToInit() {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = options.port;
  attributes.qp_access_flags = options.access;
  return verbs.modify_qp(
      qp, &attributes,
      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int TestEnd::ToReadyToReceive(uint32_t peer_number) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.ah_attr.port_num = options.port;
  attributes.path_mtu = IBV_MTU_4096;
  attributes.dest_qp_num = peer_number;
  attributes.max_dest_rd_atomic = options.reads_accepted;
  attributes.min_rnr_timer = options.min_rnr_timer;
  int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
             IBV_QP_RQ_PSN;
  if (options.type == IBV_QPT_RC) {
    mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  }
  return verbs.modify_qp(qp, &attributes, mask);
}

int TestEnd::ToReadyToSend() {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = options.timeout;
  attributes.retry_cnt = options.retry_count;
  attributes.rnr_retry = options.rnr_retry;
  attributes.max_rd_atomic = options.reads_max;
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (options.type == IBV_QPT_RC) {
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
            IBV_QP_MAX_QP_RD_ATOMIC;
  }
  return verbs.modify_qp(qp, &attributes, mask);
}

int TestEnd::ToDrained(int more_attributes) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_SQD;
  attributes.en_sqd_async_notify = 1;
  return verbs.modify_qp(qp, &attributes, IBV_QP_STATE | more_attributes);
}

int TestEnd::ToError() {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_ERR;
  return verbs.modify_qp(qp, &attributes, IBV_QP_STATE);
}

int TestEnd::ToReset() {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RESET;
  return verbs.modify_qp(qp, &attributes, IBV_QP_STATE);
}

void TestEnd::Connect(uint32_t peer_number) {
  if (State() == IBV_QPS_RESET) CHECK_EQ(ToInit(), 0);
  CHECK_EQ(ToReadyToReceive(peer_number), 0);
  CHECK_EQ(ToReadyToSend(), 0);
}

void ConnectByHand(TestEnd& a, TestEnd& b) {
  a.Connect(b.qp->qp_num);
  b.Connect(a.qp->qp_num);
}

ibv_wc TestEnd::Wait(TestEnd* other) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(10);
  ibv_wc completion;
  while (!PollOnce(completion)) {
    CHECK(std::chrono::steady_clock::now() < deadline)
        << "no completion within ten seconds";
    if (other != nullptr) other->RunProtocol();
  }
  return completion;
}

int TestEnd::NextAsyncEvent(int wait_ms) {
  pollfd wait = {context->async_fd, POLLIN, 0};
  if (poll(&wait, 1, wait_ms) != 1) return -1;
  ibv_async_event event;
  CHECK_EQ(verbs.get_async_event(context, &event), 0);
  verbs.ack_async_event(&event);
  return event.event_type;
}

ibv_qp_state TestEnd::State() const {
  ibv_qp_attr attributes;
  ibv_qp_init_attr init_attributes;
  CHECK_EQ(verbs.query_qp(qp, &attributes, IBV_QP_STATE, &init_attributes), 0);
  return attributes.qp_state;
}

bool TestEnd::StaysQuiet(TestEnd* other, int passes) {
  ibv_wc completion;
  for (int i = 0; i < passes; ++i) {
    if (PollOnce(completion)) return false;
    if (other != nullptr) other->RunProtocol();
  }
  return true;
}

}  // namespace verbena::soft
