// Memory windows between two queue pairs, and what invalidates them.

#include <gtest/gtest.h>

#include <cerrno>

#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

TestEndOptions WithWindows() {
  TestEndOptions options;
  options.access |= IBV_ACCESS_REMOTE_ATOMIC;
  return options;
}

// b opens windows of its region, which has no remote rights itself, to a.
class MemoryWindowTest : public testing::Test {
 protected:
  MemoryWindowTest() {
    ConnectByHand(a, b);
    region = b.verbs.reg_mr(b.pd, b.memory, 4096,
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    one = ibv_alloc_mw(b.pd, IBV_MW_TYPE_1);
    two = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2);
    EXPECT_NE(one, nullptr);
    EXPECT_NE(two, nullptr);
  }
  ~MemoryWindowTest() override {
    EXPECT_EQ(ibv_dealloc_mw(one), 0);
    EXPECT_EQ(ibv_dealloc_mw(two), 0);
    EXPECT_EQ(b.verbs.dereg_mr(region), 0);
  }

  static constexpr unsigned int kAll = IBV_ACCESS_REMOTE_READ |
                                       IBV_ACCESS_REMOTE_WRITE |
                                       IBV_ACCESS_REMOTE_ATOMIC;

  ibv_mw_bind_info Part(unsigned int access, size_t offset, uint64_t length) {
    return {region, b.Address(offset), length, access};
  }
  int BindOne(uint64_t wr_id, ibv_mw_bind_info part) {
    ibv_mw_bind bind = {wr_id, IBV_SEND_SIGNALED, part};
    return ibv_bind_mw(b.qp, one, &bind);
  }
  // Posts the binding of window two, under the next key.
  int BindTwo(uint64_t wr_id, ibv_mw_bind_info part) {
    ibv_send_wr request = {};
    request.wr_id = wr_id;
    request.opcode = IBV_WR_BIND_MW;
    request.send_flags = IBV_SEND_SIGNALED;
    request.bind_mw.mw = two;
    request.bind_mw.rkey = ibv_inc_rkey(two->rkey);
    request.bind_mw.bind_info = part;
    two->rkey = request.bind_mw.rkey;
    return b.Post(request);
  }
  int SendInvalidate(uint32_t key, size_t length = 4) {
    return a.SendInvalidate(80, 0, length, key);
  }
  ibv_wc_status WriteOutcome(uint32_t key, size_t offset) {
    EXPECT_EQ(a.Write(1, 0, 4, b.Address(offset), key), 0);
    return a.Wait(&b).status;
  }

  TestEnd a{WithWindows()};
  TestEnd b{WithWindows()};
  ibv_mr* region = nullptr;
  ibv_mw* one = nullptr;
  ibv_mw* two = nullptr;
};

TEST_F(MemoryWindowTest, AWindowIsNoLocalKey) {
  ASSERT_EQ(BindOne(5, Part(kAll, 0, 64)), 0);
  EXPECT_EQ(b.Wait(&a).status, IBV_WC_SUCCESS);
  ibv_sge entry = {b.Address(0), 4, one->rkey};
  ibv_send_wr request = {};
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  ASSERT_EQ(b.Post(request), 0);
  EXPECT_EQ(b.Wait(&a).status, IBV_WC_LOC_PROT_ERR);
}

TEST_F(MemoryWindowTest, ALocalInvalidationOfWhatIsNotBoundIsAnError) {
  ASSERT_EQ(b.Invalidate(70, b.mr->rkey), 0);
  EXPECT_EQ(b.Wait(&a).status, IBV_WC_LOC_QP_OP_ERR);
}

TEST_F(MemoryWindowTest, ALongSendInvalidatesAtItsEnd) {
  ASSERT_EQ(BindTwo(5, Part(kAll, 0, 64)), 0);
  EXPECT_EQ(b.Wait(&a).status, IBV_WC_SUCCESS);
  ASSERT_EQ(b.Receive(6, 4096, 50'000), 0);
  ASSERT_EQ(SendInvalidate(two->rkey, 50'000), 0);
  EXPECT_EQ(b.Wait(&a).invalidated_rkey, two->rkey);
}

TEST_F(MemoryWindowTest, ASendThatInvalidatesWhatItMayNotIsRefused) {
  ASSERT_EQ(BindOne(5, Part(kAll, 0, 64)), 0);
  EXPECT_EQ(b.Wait(&a).status, IBV_WC_SUCCESS);
  ASSERT_EQ(b.Receive(6, 100, 64), 0);
  ASSERT_EQ(SendInvalidate(one->rkey), 0);
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(b.Wait(&a).status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(b.State(), IBV_QPS_ERR);
}

TEST_F(MemoryWindowTest, ItIsBoundOnceThoughThePeerWasNotReady) {
  ASSERT_EQ(b.Send(1, 0, 4), 0);  // a has posted nothing.
  ASSERT_EQ(BindTwo(5, Part(kAll, 0, 64)), 0);
  EXPECT_TRUE(b.StaysQuiet(&a, 3000));
  ASSERT_EQ(a.Receive(2, 100, 64), 0);
  EXPECT_EQ(b.Wait(&a).wr_id, 1u);
  EXPECT_EQ(b.Wait(&a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(a.Wait(&b).wr_id, 2u);
  EXPECT_EQ(WriteOutcome(two->rkey, 0), IBV_WC_SUCCESS);
}

TEST_F(MemoryWindowTest, ARegionWithABoundWindowIsBusy) {
  ASSERT_EQ(BindTwo(5, Part(kAll, 0, 64)), 0);
  EXPECT_EQ(b.Wait(&a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(b.verbs.dereg_mr(region), EBUSY);
  EXPECT_EQ(b.verbs.dealloc_pd(b.pd), EBUSY);
  ASSERT_EQ(b.Invalidate(70, two->rkey), 0);
  EXPECT_EQ(b.Wait(&a).status, IBV_WC_SUCCESS);
}

TEST_F(MemoryWindowTest, ADestroyedQueuePairTakesItsBindingsAlong) {
  ASSERT_EQ(BindTwo(5, Part(kAll, 0, 64)), 0);
  EXPECT_EQ(b.Wait(&a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(b.verbs.destroy_qp(b.qp), 0);
  b.qp = nullptr;
  ibv_mr* const gone = region;
  region = b.verbs.reg_mr(b.pd, b.memory, 4096, 0);
  EXPECT_EQ(b.verbs.dereg_mr(gone), 0);
}

TEST_F(MemoryWindowTest, WhatThePostedRequestLacksIsRefusedAtOnce) {
  ibv_send_wr request = {};
  request.opcode = IBV_WR_BIND_MW;
  EXPECT_EQ(b.Post(request), EINVAL);
  ibv_sge entry = b.Entry(0, 4);
  request.opcode = IBV_WR_LOCAL_INV;
  request.sg_list = &entry;
  request.num_sge = 1;
  EXPECT_EQ(b.Post(request), EINVAL);
  EXPECT_EQ(ibv_alloc_mw(b.pd, static_cast<ibv_mw_type>(3)), nullptr);
}

TEST_F(MemoryWindowTest, AQueuePairOfDatagramsBindsNone) {
  TestEndOptions options;
  options.type = IBV_QPT_UD;
  TestEnd datagrams(options);
  ibv_mr* mr = datagrams.verbs.reg_mr(datagrams.pd, datagrams.memory, 4096,
                                      IBV_ACCESS_MW_BIND);
  ibv_mw* window = ibv_alloc_mw(datagrams.pd, IBV_MW_TYPE_1);
  const uint32_t key = window->rkey;
  ibv_mw_bind bind = {
      1, 0, {mr, datagrams.Address(0), 64, IBV_ACCESS_REMOTE_READ}};
  EXPECT_EQ(ibv_bind_mw(datagrams.qp, window, &bind), EINVAL);
  EXPECT_EQ(window->rkey, key);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  EXPECT_EQ(datagrams.verbs.dereg_mr(mr), 0);
}

TEST_F(MemoryWindowTest, TheDeviceSaysSo) {
  ibv_device_attr attributes;
  ASSERT_EQ(b.verbs.query_device(b.context, &attributes), 0);
  EXPECT_NE(attributes.device_cap_flags & IBV_DEVICE_MEM_WINDOW, 0u);
  EXPECT_NE(attributes.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B, 0u);
  EXPECT_EQ(attributes.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A, 0u);
  EXPECT_GT(attributes.max_mw, 0);
}

}  // namespace
}  // namespace verbena::soft
