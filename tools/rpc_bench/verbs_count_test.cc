#include "tools/rpc_bench/verbs_count.h"

#include <sys/poll.h>

#include "gtest/gtest.h"
#include "tools/rpc_bench/report.pb.h"
#include "transport/verbs/fake_verbs.h"

namespace verbena::bench {
namespace {

// Returns half of what `act` costs on a device whose verbs are counted. All
// tests use the same device, because counting never ends.
template <typename Act>
VerbsCost CostOf(const Act& act) {
  static transport::FakeVerbs* const device = new transport::FakeVerbs();
  CountVerbs(device->context());
  CountVerbs(device->context());
  const VerbsCost before = VerbsCounted();
  act(*device);
  return VerbsPerCall(before, VerbsCounted(), 2);
}

TEST(VerbsCountTest, CountsEachWorkRequestOfAChainAndTheDoorbell) {
  const VerbsCost cost = CostOf([](transport::FakeVerbs& device) {
    ibv_sge element = {.addr = 0, .length = 100, .lkey = 0};
    ibv_send_wr chain[4] = {};
    const ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_READ,
                                     IBV_WR_RDMA_WRITE, IBV_WR_SEND_WITH_IMM};
    for (int i = 0; i < 4; ++i) {
      chain[i].opcode = opcodes[i];
      chain[i].sg_list = &element;
      chain[i].num_sge = i == 3 ? 0 : 1;
      chain[i].next = i == 3 ? nullptr : &chain[i + 1];
    }
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(device.qp(), chain, &bad), 0);
    EXPECT_EQ(device.sends.size(), 4u);
  });
  EXPECT_EQ(cost.sends(), 1);
  EXPECT_EQ(cost.reads(), 0.5);
  EXPECT_EQ(cost.writes(), 0.5);
  EXPECT_EQ(cost.post_sends(), 0.5);
  EXPECT_EQ(cost.bytes(), 150);
  EXPECT_EQ(cost.post_recvs(), 0);
}

TEST(VerbsCountTest, CountsReceivesPollsAndArms) {
  const VerbsCost cost = CostOf([](transport::FakeVerbs& device) {
    ibv_srq srq = {};
    srq.context = device.context();
    ibv_sge element = {};
    ibv_recv_wr work = {};
    work.sg_list = &element;
    work.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_srq_recv(&srq, &work, &bad), 0);
    ibv_wc sent = {};
    sent.opcode = IBV_WC_SEND;
    ibv_wc received = {};
    received.opcode = IBV_WC_RECV;
    ibv_wc failed = sent;
    failed.status = IBV_WC_WR_FLUSH_ERR;
    device.completions = {sent, received, failed};
    ibv_cq cq = {};
    cq.context = device.context();
    ibv_wc found[4];
    EXPECT_EQ(ibv_poll_cq(&cq, 4, found), 3);
    EXPECT_EQ(ibv_poll_cq(&cq, 4, found), 0);
    EXPECT_EQ(ibv_poll_cq(&cq, 4, found), 0);
    EXPECT_EQ(ibv_req_notify_cq(&cq, 0), 0);
  });
  EXPECT_EQ(cost.post_recvs(), 0.5);
  EXPECT_EQ(cost.signalled(), 0.5);
  EXPECT_EQ(cost.polls_found(), 0.5);
  EXPECT_EQ(cost.polls_empty(), 1);
  EXPECT_EQ(cost.arms(), 0.5);
}

TEST(VerbsCountTest, CountsHowOftenThreadsWaited) {
  const VerbsCost cost = CostOf([](transport::FakeVerbs& /*device*/) {
    for (int i = 0; i < 4; ++i) poll(nullptr, 0, 1);
  });
  EXPECT_GE(cost.sleeps(), 2);
}

}  // namespace
}  // namespace verbena::bench
