// Calls of libibverbs and librdmacm that no other test makes through the
// preloaded library, refusals above all. Part of preload_test, which see.

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <cerrno>

#include "gtest/gtest.h"

namespace verbena::soft {
namespace {

class PreloadCallsTest : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    ibv_device** const list = ibv_get_device_list(&count);
    ASSERT_GE(count, 1);
    context_ = ibv_open_device(list[count - 1]);
    ibv_free_device_list(list);
    ASSERT_NE(context_, nullptr);
    pd_ = ibv_alloc_pd(context_);
    cq_ = ibv_create_cq(context_, 4, nullptr, nullptr, 0);
    ibv_qp_init_attr attributes = Queues();
    qp_ = ibv_create_qp(pd_, &attributes);
    ASSERT_NE(qp_, nullptr);
    errno = 0;
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_qp(qp_), 0);
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
    EXPECT_EQ(ibv_close_device(context_), 0);
  }

  ibv_qp_init_attr Queues() {
    ibv_qp_init_attr attributes = {};
    attributes.send_cq = attributes.recv_cq = cq_;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap.max_send_wr = attributes.cap.max_recv_wr = 1;
    return attributes;
  }
  static int TakeErrno() {
    const int error = errno;
    errno = 0;
    return error;
  }

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
};

TEST_F(PreloadCallsTest, WhatIsNotHonouredIsNotSupported) {
  EXPECT_EQ(ibv_reg_dmabuf_mr(pd_, 0, 4096, 0, 0, 0), nullptr);
  EXPECT_EQ(TakeErrno(), EOPNOTSUPP);
  EXPECT_EQ(ibv_import_pd(context_, 0), nullptr);
  EXPECT_EQ(TakeErrno(), EOPNOTSUPP);
  EXPECT_EQ(ibv_import_mr(pd_, 0), nullptr);
  EXPECT_EQ(TakeErrno(), EOPNOTSUPP);
  EXPECT_EQ(ibv_import_dm(context_, 0), nullptr);
  EXPECT_EQ(TakeErrno(), EOPNOTSUPP);
  ibv_ece ece = {};
  EXPECT_EQ(ibv_set_ece(qp_, &ece), EOPNOTSUPP);
  EXPECT_EQ(TakeErrno(), EOPNOTSUPP);
  EXPECT_EQ(ibv_query_ece(qp_, &ece), EOPNOTSUPP);
  EXPECT_EQ(TakeErrno(), EOPNOTSUPP);
  ibv_gid_entry entry;
  EXPECT_EQ(ibv_query_gid_ex(context_, 1, 0, &entry, 1), EOPNOTSUPP);
  EXPECT_EQ(TakeErrno(), EOPNOTSUPP);
}

// The functions for these are inline: they look into the context.
TEST_F(PreloadCallsTest, WhatTheContextLacksIsNotSupported) {
  ibv_xrcd_init_attr xrcd = {};
  EXPECT_EQ(ibv_open_xrcd(context_, &xrcd), nullptr);
  EXPECT_EQ(TakeErrno(), EOPNOTSUPP);
  ibv_qp_open_attr open = {};
  EXPECT_EQ(ibv_open_qp(context_, &open), nullptr);
  EXPECT_EQ(TakeErrno(), EOPNOTSUPP);
  EXPECT_EQ(ibv_alloc_null_mr(pd_), nullptr);
  EXPECT_EQ(TakeErrno(), EOPNOTSUPP);
  ibv_modify_cq_attr moderation = {};
  EXPECT_EQ(ibv_modify_cq(cq_, &moderation), EOPNOTSUPP);
  ibv_flow_attr flow = {};
  EXPECT_EQ(ibv_create_flow(qp_, &flow), nullptr);
  EXPECT_EQ(TakeErrno(), EOPNOTSUPP);
  ibv_wq_init_attr wq = {};
  EXPECT_EQ(ibv_create_wq(context_, &wq), nullptr);
  EXPECT_EQ(TakeErrno(), EOPNOTSUPP);
  ibv_counters_init_attr counters = {};
  EXPECT_EQ(ibv_create_counters(context_, &counters), nullptr);
  EXPECT_EQ(TakeErrno(), EOPNOTSUPP);
}

TEST_F(PreloadCallsTest, ItAnswersQuestionsAboutTheDevice) {
  ibv_device_attr attributes;
  ASSERT_EQ(ibv_query_device(context_, &attributes), 0);
  EXPECT_EQ(ibv_get_device_guid(context_->device), attributes.node_guid);
  EXPECT_EQ(ibv_get_pkey_index(context_, 1, htons(0xffff)), 0);
  EXPECT_EQ(ibv_get_pkey_index(context_, 1, htons(0x1234)), -1);
  EXPECT_EQ(ibv_query_qp_data_in_order(qp_, IBV_WR_RDMA_WRITE, 0), 0);
  ibv_gid_entry entry;
  ASSERT_EQ(ibv_query_gid_ex(context_, 1, 0, &entry, 0), 0);
  EXPECT_EQ(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
  EXPECT_EQ(ibv_query_gid_ex(context_, 99, 0, &entry, 0), EINVAL);
}

class PreloadCmCallsTest : public PreloadCallsTest {
 protected:
  // An identifier that is bound to the loopback address.
  rdma_cm_id* Bound() {
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP), 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)), 0);
    errno = 0;
    return id;
  }
};

TEST_F(PreloadCmCallsTest, ItsDevicesAreListedIfThatIsAlone) {
  int count = 0;
  ibv_context** const list = rdma_get_devices(&count);
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(count, 1);
  EXPECT_EQ(list[0]->device, context_->device);
  EXPECT_EQ(list[1], nullptr);
  rdma_free_devices(list);
}

TEST_F(PreloadCmCallsTest, ItHasQueuesOfItsOwnIfThatIsAlone) {
  rdma_cm_id* const id = Bound();
  ibv_srq_init_attr srq = {};
  srq.attr.max_wr = 4;
  EXPECT_EQ(rdma_create_srq(id, nullptr, &srq), 0);
  EXPECT_NE(id->srq, nullptr);
  rdma_destroy_srq(id);
  EXPECT_EQ(id->srq, nullptr);
  ibv_srq_init_attr_ex extended = {};
  extended.attr.max_wr = 4;
  EXPECT_EQ(rdma_create_srq_ex(id, &extended), 0);
  rdma_destroy_srq(id);
  ibv_qp_init_attr_ex queues = {};
  queues.qp_type = IBV_QPT_RC;
  queues.cap.max_send_wr = queues.cap.max_recv_wr = 1;
  EXPECT_EQ(rdma_create_qp_ex(id, &queues), 0);
  EXPECT_NE(id->qp, nullptr);
  rdma_destroy_qp(id);
  EXPECT_EQ(id->qp, nullptr);
  EXPECT_EQ(rdma_get_dst_port(id), 0);
  EXPECT_NE(rdma_get_src_port(id), 0);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(PreloadCmCallsTest, ItRefusesWhatItHasNotIfThatIsAlone) {
  rdma_cm_id* const id = Bound();
  ibv_qp_init_attr_ex queues = {};
  queues.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  EXPECT_EQ(rdma_create_qp_ex(id, &queues), -1);
  EXPECT_EQ(TakeErrno(), EOPNOTSUPP);
  ibv_srq_init_attr_ex srq = {};
  srq.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
  srq.srq_type = IBV_SRQT_XRC;
  EXPECT_EQ(rdma_create_srq_ex(id, &srq), -1);
  EXPECT_EQ(TakeErrno(), EOPNOTSUPP);
  ibv_ece ece = {};
  EXPECT_EQ(rdma_set_local_ece(id, &ece), -1);
  EXPECT_EQ(TakeErrno(), EOPNOTSUPP);
  EXPECT_EQ(rdma_get_remote_ece(id, &ece), -1);
  EXPECT_EQ(TakeErrno(), EOPNOTSUPP);
  // Nothing was requested of it that it could reject or establish.
  EXPECT_EQ(rdma_reject_ece(id, nullptr, 0), -1);
  EXPECT_EQ(TakeErrno(), EINVAL);
  EXPECT_EQ(rdma_establish(id), -1);
  EXPECT_EQ(TakeErrno(), EINVAL);
  EXPECT_EQ(rdma_notify(id, IBV_EVENT_COMM_EST), 0);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(PreloadCmCallsTest, ItSaysWhatItsTransitionsTakeIfThatIsAlone) {
  rdma_cm_id* const id = Bound();
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_INIT;
  int mask = 0;
  EXPECT_EQ(rdma_init_qp_attr(id, &attributes, &mask), 0);
  EXPECT_EQ(ibv_modify_qp(qp_, &attributes, mask), 0);
  attributes.qp_state = IBV_QPS_RTR;
  EXPECT_EQ(rdma_init_qp_attr(id, &attributes, &mask), -1);
  EXPECT_EQ(TakeErrno(), EINVAL);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

}  // namespace
}  // namespace verbena::soft
