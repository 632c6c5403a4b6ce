#include "transport/soft/extended/extended_queue_pair.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

constexpr uint64_t kAll =
    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
    IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

constexpr uint32_t kDepth = 4;
constexpr uint32_t kInline = 64;

ibv_qp_init_attr_ex Attributes(TestEnd& end, uint64_t operations) {
  ibv_qp_init_attr_ex attributes = {};
  attributes.send_cq = attributes.recv_cq = end.cq;
  attributes.cap = {kDepth, 16, 4, 4, kInline};
  attributes.qp_type = IBV_QPT_RC;
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attributes.pd = end.pd;
  attributes.send_ops_flags = operations;
  return attributes;
}

// An end with an extended queue pair, connected to one without.
class SendOperationsTest : public testing::Test {
 protected:
  SendOperationsTest() {
    EXPECT_EQ(end_.verbs.destroy_qp(end_.qp), 0);
    ibv_qp_init_attr_ex attributes = Attributes(end_, kAll);
    end_.qp = ibv_create_qp_ex(end_.context, &attributes);
    EXPECT_NE(end_.qp, nullptr) << "errno " << errno;
    qp_ = ToExtendedQueuePair(end_.qp);
    EXPECT_NE(qp_, nullptr);
    ConnectManually(end_, peer_);
    qp_->wr_flags = IBV_SEND_SIGNALED;
  }

  // Posts receives to the peer.
  void Receives(int count) {
    for (int i = 0; i < count; ++i) ASSERT_EQ(peer_.Receive(i, 0, 4096), 0);
  }
  void SetData(size_t offset, uint32_t length) {
    ibv_wr_set_sge(qp_, end_.mr->lkey, end_.Address(offset), length);
  }
  TestEnd end_;
  TestEnd peer_;
  ibv_qp_ex* qp_ = nullptr;
};

TEST_F(SendOperationsTest, OneBadRequestSpoilsTheBatch) {
  Receives(2);
  const auto after_a_good_one = [&](auto add) {
    ibv_wr_start(qp_);
    ibv_wr_send(qp_);
    SetData(0, 8);
    add();
    const int error = ibv_wr_complete(qp_);
    EXPECT_TRUE(peer_.StaysQuiet(&end_, 100));
    return error;
  };
  const ibv_sge entries[5] = {};
  std::string text(kInline + 1, 'x');
  EXPECT_EQ(after_a_good_one([&] {
              ibv_wr_send(qp_);
              ibv_wr_set_sge_list(qp_, 5, entries);
            }),
            EINVAL);
  EXPECT_EQ(after_a_good_one([&] {
              ibv_wr_send(qp_);
              ibv_wr_set_inline_data(qp_, text.data(), text.size());
            }),
            ENOMEM);
  EXPECT_EQ(after_a_good_one([&] { SetData(0, 8); }), EINVAL)
      << "two setters of data";
  ibv_wr_start(qp_);
  SetData(0, 8);
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL) << "data of no request";
  ibv_wr_start(qp_);
  EXPECT_EQ(ibv_wr_complete(qp_), 0) << "nothing is nothing wrong";
}

TEST_F(SendOperationsTest, AQueuePairThatIsNotReadyRefuses) {
  ASSERT_EQ(end_.To(IBV_QPS_RESET), 0);
  ibv_wr_start(qp_);
  ibv_wr_send(qp_);
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
}

int CreateError(TestEnd& end, ibv_qp_init_attr_ex attributes) {
  errno = 0;
  ibv_qp* qp = CreateQpEx(end.context, &attributes);
  if (qp == nullptr) return errno;
  EXPECT_EQ(end.verbs.destroy_qp(qp), 0);
  return 0;
}

TEST(CreateExtendedTest, WhatIsNotHonouredIsRefused) {
  TestEnd end;
  EXPECT_EQ(CreateError(end, Attributes(end, kAll)), 0);
  EXPECT_EQ(CreateError(end, Attributes(end, IBV_QP_EX_WITH_TSO)), EOPNOTSUPP);
  EXPECT_EQ(CreateError(end, Attributes(end, uint64_t{1} << 40)), EOPNOTSUPP);
  ibv_qp_init_attr_ex attributes = Attributes(end, kAll);
  attributes.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
  EXPECT_EQ(CreateError(end, attributes), EOPNOTSUPP);
  attributes = Attributes(end, kAll);
  attributes.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
  EXPECT_EQ(CreateError(end, attributes), 0);
  attributes.create_flags = IBV_QP_CREATE_CVLAN_STRIPPING;
  EXPECT_EQ(CreateError(end, attributes), EOPNOTSUPP);
  attributes = Attributes(end, kAll);
  attributes.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  EXPECT_EQ(CreateError(end, attributes), EINVAL) << "no protection domain";
}

TEST(CreateExtendedTest, CapacitiesGrantedAreWrittenBack) {
  TestEndOptions options;
  options.shared_receives = 4;
  TestEnd end(options);
  ibv_qp_init_attr_ex attributes = Attributes(end, 0);
  attributes.srq = end.srq;
  ibv_qp* qp = CreateQpEx(end.context, &attributes);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(attributes.cap.max_recv_wr, 0u);
  EXPECT_EQ(end.verbs.destroy_qp(qp), 0);
}

}  // namespace
}  // namespace verbena::soft
