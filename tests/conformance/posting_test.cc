// Posting: in which state, how much, and what becomes of it on an error.

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "tests/conformance/differences.h"
#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

class PostingTest : public testing::Test {
 protected:
  End a;
  End b;
};

TEST_F(PostingTest, ASendNeedsReadyToSend) {
  EXPECT_EQ(a.Send(1, 0, 8), EINVAL);
  ASSERT_EQ(a.To(IBV_QPS_INIT), 0);
  EXPECT_EQ(a.Send(1, 0, 8), EINVAL);
  ASSERT_EQ(a.To(IBV_QPS_RTR), 0);
  EXPECT_EQ(a.Send(1, 0, 8), EINVAL);
}

TEST_F(PostingTest, ARequestThatIsRefusedIsNamed) {
  ibv_send_wr request = {};
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(a.qp, &request, &bad), EINVAL);
  EXPECT_EQ(bad == &request, Keeps(Promise::kRequestInTheWrongStateIsNamed));
}

TEST_F(PostingTest, AReceiveInResetIsRefused) {
  EXPECT_EQ(a.Receive(1, 0, 8), EINVAL);
}

TEST_F(PostingTest, AReceiveThatWasPostedInInitIsUsed) {
  ASSERT_EQ(b.To(IBV_QPS_INIT), 0);
  ASSERT_EQ(b.Receive(7, 0, 64), 0);
  a.peer = &b;
  b.peer = &a;
  a.BringTo(IBV_QPS_RTS);
  ASSERT_EQ(b.To(IBV_QPS_RTR), 0);  // Enough to receive.
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Outcome(7), IBV_WC_SUCCESS);
}

TEST_F(PostingTest, WhatIsPostedInErrorIsFlushed) {
  Connect(a, b);
  ASSERT_EQ(a.To(IBV_QPS_ERR), 0);
  ASSERT_EQ(a.Receive(1, 0, 64), 0);
  if (Keeps(Promise::kReceiveInErrorIsFlushedAtOnce)) {
    EXPECT_EQ(a.Outcome(1), IBV_WC_WR_FLUSH_ERR);
  } else {
    EXPECT_TRUE(a.StaysQuiet());
  }
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  EXPECT_EQ(a.Outcome(2), IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(a.Send(3, 0, 8, 0), 0);  // Unsignalled too.
  EXPECT_EQ(a.Outcome(3), IBV_WC_WR_FLUSH_ERR);
}

TEST_F(PostingTest, AFlushKeepsTheOrderOfEachQueue) {
  a.BringTo(IBV_QPS_RTS);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(a.Receive(10 + i, 0, 64), 0);
  ASSERT_EQ(a.To(IBV_QPS_ERR), 0);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(a.Send(20 + i, 0, 8), 0);
  uint64_t receive = 10;
  uint64_t send = 20;
  for (int i = 0; i < 8; ++i) {
    const ibv_wc completion = a.Wait();
    EXPECT_EQ(completion.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(completion.qp_num, a.qp->qp_num);
    uint64_t& expected = completion.wr_id < 20 ? receive : send;
    EXPECT_EQ(completion.wr_id, expected++);
  }
  EXPECT_TRUE(a.StaysQuiet());
}

TEST_F(PostingTest, AFullReceiveQueueIsOutOfMemory) {
  ASSERT_EQ(a.To(IBV_QPS_INIT), 0);
  const ibv_qp_cap granted = a.Granted();
  for (uint32_t i = 0; i < granted.max_recv_wr; ++i) {
    ASSERT_EQ(a.Receive(i, 0, 64), 0);
  }
  EXPECT_EQ(a.Receive(99, 0, 64), ENOMEM);
}

TEST_F(PostingTest, AFullSendQueueIsOutOfMemoryAndNamesTheFirstThatWasNot) {
  Connect(a, b);  // b has no receive, so nothing completes.
  const ibv_qp_cap granted = a.Granted();
  const uint32_t depth = granted.max_send_wr;
  ibv_sge entry = a.Entry(0, 8);
  std::vector<ibv_send_wr> chain(depth + 2);
  for (size_t i = 0; i < chain.size(); ++i) {
    chain[i].wr_id = i;
    chain[i].sg_list = &entry;
    chain[i].num_sge = 1;
    chain[i].opcode = IBV_WR_SEND;
    chain[i].send_flags = IBV_SEND_SIGNALED;
    if (i > 0) chain[i - 1].next = &chain[i];
  }
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(a.qp, chain.data(), &bad), ENOMEM);
  EXPECT_EQ(bad, &chain[depth]);
  for (uint32_t i = 0; i < depth; ++i) ASSERT_EQ(b.Receive(i, 0, 64), 0);
  for (uint32_t i = 0; i < depth; ++i) EXPECT_EQ(a.Outcome(i), IBV_WC_SUCCESS);
  EXPECT_TRUE(a.StaysQuiet());
}

TEST_F(PostingTest, TooManyEntriesAreRefused) {
  Connect(a, b);
  const ibv_qp_cap granted = a.Granted();
  std::vector<ibv_sge> entries(granted.max_send_sge + 1, a.Entry(0, 1));
  ibv_send_wr request = {};
  request.sg_list = entries.data();
  request.num_sge = static_cast<int>(entries.size());
  request.opcode = IBV_WR_SEND;
  EXPECT_EQ(a.Post(request), EINVAL);
}

TEST_F(PostingTest, MoreInlineThanAskedForIsRefused) {
  Connect(a, b);
  const ibv_qp_cap granted = a.Granted();
  EXPECT_NE(a.Send(1, 0, granted.max_inline_data + 1,
                   IBV_SEND_SIGNALED | IBV_SEND_INLINE),
            0);
}

TEST_F(PostingTest, WhatBringsDataIsNotInline) {
  Connect(a, b);
  if (!Keeps(Promise::kOnlyWhatIsSentIsInline)) return;
  EXPECT_EQ(a.Read(1, 0, 8, b.Address(0), b.mr->rkey, IBV_SEND_INLINE), EINVAL);
  EXPECT_EQ(a.FetchAdd(1, 0, b.Address(0), b.mr->rkey, 1, IBV_SEND_INLINE),
            EINVAL);
}

TEST_F(PostingTest, AnOpcodeOfAnotherTransportIsRefused) {
  Connect(a, b);
  ibv_send_wr request = {};
  request.opcode = static_cast<ibv_wr_opcode>(15);
  EXPECT_EQ(a.Post(request) != 0, Keeps(Promise::kUnknownOpcodeIsRefused));
}

TEST_F(PostingTest, SignalAllCompletesWhatAsksForNothing) {
  EndOptions options;
  options.signal_all = true;
  End all(options);
  Connect(all, b);
  ASSERT_EQ(b.Receive(9, 0, 64), 0);
  ASSERT_EQ(all.Send(1, 0, 8, 0), 0);
  EXPECT_EQ(all.Outcome(1), IBV_WC_SUCCESS);
}

TEST_F(PostingTest, AnUnsignalledRequestIsCoveredByTheNextCompletion) {
  Connect(a, b);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(b.Receive(9, 0, 64), 0);
  ASSERT_EQ(a.Send(1, 0, 8, 0), 0);
  ASSERT_EQ(a.Send(2, 0, 8, 0), 0);
  ASSERT_EQ(a.Send(3, 0, 8), 0);
  EXPECT_EQ(a.Outcome(3), IBV_WC_SUCCESS);
  EXPECT_TRUE(a.StaysQuiet());
}

TEST_F(PostingTest, RoomIsFreeWhenACompletionBehindItHasBeenPolled) {
  EndOptions options;
  options.send_depth = 4;
  End small(options);
  Connect(small, b);
  const uint32_t depth = small.Granted().max_send_wr;
  const auto write = [&](unsigned int flags) {
    return small.Write(7, 0, 8, b.Address(0), b.mr->rkey, flags);
  };
  for (int round = 0; round < 20; ++round) {
    for (uint32_t i = 1; i < depth; ++i) ASSERT_EQ(write(0), 0);
    ASSERT_EQ(write(IBV_SEND_SIGNALED), 0);
    EXPECT_EQ(small.Outcome(7), IBV_WC_SUCCESS);
  }
  for (uint32_t i = 0; i < depth; ++i) ASSERT_EQ(write(0), 0);
  EXPECT_TRUE(small.StaysQuiet());
  EXPECT_EQ(write(0),
            Keeps(Promise::kRoomIsKeptUntilACompletionIsPolled) ? ENOMEM : 0);
}

TEST_F(PostingTest, AnUnsignalledRequestThatFailsCompletes) {
  Connect(a, b);
  ASSERT_EQ(a.Write(1, 0, 8, b.Address(0), b.mr->rkey ^ 0x55, 0), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_REM_ACCESS_ERR);
}

}  // namespace
}  // namespace verbena::conformance
