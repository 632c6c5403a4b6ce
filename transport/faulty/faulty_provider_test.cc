#include "transport/faulty/faulty_provider.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <vector>

#include "transport/faulty/fault_plan.h"
#include "transport/soft/soft_provider.h"

namespace verbena::transport {
namespace {

// A queue pair whose receives come back when it fails: completions without a
// peer.
class FaultyProviderTest : public testing::Test {
 protected:
  FaultyProviderTest() : faulty_(soft::SoftProvider(), plan_) {
    SetUpObjects();
  }
  ~FaultyProviderTest() override {
    EXPECT_EQ(verbs().destroy_qp(qp_), 0);
    EXPECT_EQ(verbs().destroy_cq(cq_), 0);
    EXPECT_EQ(verbs().dereg_mr(mr_), 0);
    EXPECT_EQ(verbs().dealloc_pd(pd_), 0);
    EXPECT_EQ(faulty_.objects(), 0u);
    EXPECT_EQ(verbs().close_device(context_), 0);
  }

  void SetUpObjects() {
    ibv_device** const devices = verbs().get_device_list(nullptr);
    context_ = verbs().open_device(devices[0]);
    verbs().free_device_list(devices);
    pd_ = verbs().alloc_pd(context_);
    mr_ = verbs().reg_mr(pd_, memory_.data(), memory_.size(),
                         IBV_ACCESS_LOCAL_WRITE);
    cq_ = verbs().create_cq(context_, 64, nullptr, nullptr, 0);
    ibv_qp_init_attr attributes = {};
    attributes.send_cq = attributes.recv_cq = cq_;
    attributes.cap = {8, 8, 1, 1, 0};
    attributes.qp_type = IBV_QPT_RC;
    qp_ = verbs().create_qp(pd_, &attributes);
    ASSERT_NE(qp_, nullptr);
    ibv_qp_attr init = {};
    init.qp_state = IBV_QPS_INIT;
    init.port_num = 1;
    ASSERT_EQ(verbs().modify_qp(qp_, &init,
                                IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                    IBV_QP_ACCESS_FLAGS),
              0);
  }

  const VerbsOps& verbs() const { return faulty_.provider().verbs; }

  int PostReceive(uint64_t wr_id) {
    ibv_sge entry = {reinterpret_cast<uint64_t>(memory_.data()), 8, mr_->lkey};
    ibv_recv_wr request = {};
    request.wr_id = wr_id;
    request.sg_list = &entry;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    const int error = ibv_post_recv(qp_, &request, &bad);
    EXPECT_EQ(bad, error == 0 ? nullptr : &request);
    return error;
  }

  // Posts receives 1 to `count`, and has them flushed.
  void Flush(uint64_t count) {
    for (uint64_t i = 1; i <= count; ++i) ASSERT_EQ(PostReceive(i), 0);
    ibv_qp_attr error = {};
    error.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(verbs().modify_qp(qp_, &error, IBV_QP_STATE), 0);
  }

  std::vector<uint64_t> PollOnce() {
    ibv_wc completions[8];
    const int count = ibv_poll_cq(cq_, 8, completions);
    std::vector<uint64_t> ids;
    for (int i = 0; i < count; ++i) ids.push_back(completions[i].wr_id);
    return ids;
  }

  using Ids = std::vector<uint64_t>;

  FaultPlan plan_;
  FaultyProvider faulty_;
  std::array<char, 64> memory_ = {};
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
};

TEST_F(FaultyProviderTest, WithoutAFaultEverythingPasses) {
  EXPECT_EQ(faulty_.objects(), 4u);
  Flush(3);
  EXPECT_EQ(PollOnce(), Ids({1, 2, 3}));
  EXPECT_TRUE(plan_.faults().empty());
}

TEST_F(FaultyProviderTest, AVerbThatMakesSomethingFailsWithNull) {
  plan_.FailCall("create_cq", 2, ENOSPC);  // The first was in the fixture.
  errno = 0;
  EXPECT_EQ(verbs().create_cq(context_, 8, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, ENOSPC);
  ibv_cq* const cq = verbs().create_cq(context_, 8, nullptr, nullptr, 0);
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(verbs().destroy_cq(cq), 0);
}

TEST_F(FaultyProviderTest, AVerbThatReturnsAnErrnoReturnsIt) {
  plan_.FailCall("query_device", 1, EIO);
  ibv_device_attr attributes = {};
  EXPECT_EQ(verbs().query_device(context_, &attributes), EIO);
  EXPECT_EQ(verbs().query_device(context_, &attributes), 0);
}

TEST_F(FaultyProviderTest, TheConnectionManagerFailsWithMinusOne) {
  plan_.FailCall("create_id", 1, ENOMEM);
  const CmOps& cm = faulty_.provider().cm;
  rdma_event_channel* const channel = cm.create_event_channel();
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(cm.create_id(channel, &id, nullptr, RDMA_PS_TCP), -1);
  EXPECT_EQ(errno, ENOMEM);
  cm.destroy_event_channel(channel);
}

TEST_F(FaultyProviderTest, AQueueMayBeExhausted) {
  plan_.FailCall("post_recv", 2, ENOMEM, 2);
  EXPECT_EQ(PostReceive(1), 0);
  EXPECT_EQ(PostReceive(2), ENOMEM);
  EXPECT_EQ(PostReceive(3), ENOMEM);
  EXPECT_EQ(PostReceive(4), 0);
}

TEST_F(FaultyProviderTest, ADroppedCompletionIsNotSeen) {
  plan_.DropCompletion(2);
  Flush(3);
  EXPECT_EQ(PollOnce(), Ids({1, 3}));
}

TEST_F(FaultyProviderTest, ADelayedCompletionHoldsUpItsQueue) {
  plan_.DelayCompletion(2, 2);
  Flush(3);
  EXPECT_EQ(PollOnce(), Ids({1}));
  EXPECT_EQ(PollOnce(), Ids());
  EXPECT_EQ(PollOnce(), Ids({2, 3}));
}

TEST_F(FaultyProviderTest, ADelayedCompletionIsFoundByWhoeverArmsTheQueue) {
  plan_.DelayCompletion(1, 1000);
  Flush(2);
  EXPECT_EQ(PollOnce(), Ids());
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  EXPECT_EQ(PollOnce(), Ids({1, 2}));
}

TEST_F(FaultyProviderTest, AFailedCompletionSaysSoAndItsQueuePairIsInError) {
  plan_.FailCompletion(1, IBV_WC_RETRY_EXC_ERR);
  Flush(1);
  ibv_wc completion = {};
  ASSERT_EQ(ibv_poll_cq(cq_, 1, &completion), 1);
  EXPECT_EQ(completion.status, IBV_WC_RETRY_EXC_ERR);
  ibv_qp_attr attributes = {};
  ibv_qp_init_attr init = {};
  ASSERT_EQ(verbs().query_qp(qp_, &attributes, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_ERR);
}

TEST_F(FaultyProviderTest, AStalledQueueHandsOutNothingUntilItIsReleased) {
  plan_.StallCompletions();
  Flush(2);
  EXPECT_EQ(PollOnce(), Ids());
  EXPECT_EQ(PollOnce(), Ids());
  plan_.ReleaseCompletions();
  EXPECT_EQ(PollOnce(), Ids({1, 2}));
}

TEST_F(FaultyProviderTest, WhatWasMadeThroughTheOtherTablePasses) {
  const VerbsOps& soft = soft::SoftProvider().verbs;
  plan_.FailCall("poll_cq", 1, EIO, UINT64_MAX);
  ibv_cq* const cq = soft.create_cq(context_, 8, nullptr, nullptr, 0);
  ibv_wc completion = {};
  EXPECT_EQ(ibv_poll_cq(cq, 1, &completion), 0);
  EXPECT_EQ(ibv_poll_cq(cq_, 1, &completion), -1);
  EXPECT_EQ(soft.destroy_cq(cq), 0);
}

TEST_F(FaultyProviderTest, EventsMayBeLostOrTurnIntoOthers) {
  plan_.DropEvent(RDMA_CM_EVENT_ADDR_RESOLVED, 1);
  plan_.ReplaceEvent(RDMA_CM_EVENT_ADDR_RESOLVED, 2, RDMA_CM_EVENT_ADDR_ERROR,
                     -EHOSTUNREACH);
  const CmOps& cm = faulty_.provider().cm;
  rdma_event_channel* const channel = cm.create_event_channel();
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(1);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  rdma_cm_id* ids[2];
  for (rdma_cm_id*& id : ids) {
    ASSERT_EQ(cm.create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
    ASSERT_EQ(cm.resolve_addr(id, nullptr,
                              reinterpret_cast<sockaddr*>(&address), 1000),
              0);
  }
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(cm.get_cm_event(channel, &event), 0);
  EXPECT_EQ(event->id, ids[1]);
  EXPECT_EQ(event->event, RDMA_CM_EVENT_ADDR_ERROR);
  EXPECT_EQ(event->status, -EHOSTUNREACH);
  EXPECT_EQ(cm.ack_cm_event(event), 0);
  for (rdma_cm_id* id : ids) EXPECT_EQ(cm.destroy_id(id), 0);
  cm.destroy_event_channel(channel);
}

}  // namespace
}  // namespace verbena::transport
