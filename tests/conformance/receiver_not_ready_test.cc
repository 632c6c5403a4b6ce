// A message that finds no receive: the sender tries again, as often as it was
// told.

#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

EndOptions Retries(uint8_t rnr_retry) {
  EndOptions options;
  options.rnr_retry = rnr_retry;
  return options;
}

TEST(ReceiverNotReadyTest, RetryingWithoutEndWaitsForAReceive) {
  End a;
  End b;
  Connect(a, b);
  a.Fill(0, "patient");
  ASSERT_EQ(a.Send(1, 0, 7), 0);
  EXPECT_TRUE(a.StaysQuiet());  // Many times the timer.
  ASSERT_EQ(b.Receive(7, 0, 64), 0);
  EXPECT_EQ(b.Outcome(7), IBV_WC_SUCCESS);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Text(0, 7), "patient");
}

TEST(ReceiverNotReadyTest, WithoutRetriesItFailsAtOnce) {
  End a(Retries(0));
  End b;
  Connect(a, b);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(a.Outcome(2), IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a.State(), IBV_QPS_ERR);
  EXPECT_EQ(b.State(), IBV_QPS_RTS);  // It has done nothing wrong.
}

TEST(ReceiverNotReadyTest, EachRetryWaitsForTheRespondersTimer) {
  EndOptions slow;
  slow.min_rnr_timer = 20;  // 10.24 ms.
  End a(Retries(3));
  End b(slow);
  Connect(a, b);
  const absl::Time start = absl::Now();
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_GE(absl::Now() - start, 3 * absl::Milliseconds(10));
}

TEST(ReceiverNotReadyTest, MessagesBehindItKeepTheirPlace) {
  End a;
  End b;
  Connect(a, b);
  a.Fill(0, "abc");
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(a.Send(i, i, 1), 0);
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(b.Receive(10 + i, i, 8), 0);
    EXPECT_EQ(b.Outcome(10 + i), IBV_WC_SUCCESS);
    EXPECT_EQ(a.Outcome(i), IBV_WC_SUCCESS);
  }
  EXPECT_EQ(b.Text(0, 3), "abc");
}

TEST(ReceiverNotReadyTest, AWriteBeforeItIsNotDoneTwice) {
  End a;
  End b;
  Connect(a, b);
  a.Fill(0, "first");
  ASSERT_EQ(a.Write(1, 0, 5, b.Address(0), b.mr->rkey), 0);
  ASSERT_EQ(a.Send(2, 0, 5), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Text(0, 5), "first");
  b.Fill(0, "other");
  EXPECT_TRUE(a.StaysQuiet());
  ASSERT_EQ(b.Receive(7, 100, 64), 0);
  EXPECT_EQ(a.Outcome(2), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Text(0, 5), "other");
}

TEST(ReceiverNotReadyTest, AWriteWithImmediateNeedsAReceiveToo) {
  End a(Retries(0));
  End b;
  Connect(a, b);
  ibv_sge entry = a.Entry(0, 8);
  ibv_send_wr write = {};
  write.wr_id = 1;
  write.sg_list = &entry;
  write.num_sge = 1;
  write.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  write.send_flags = IBV_SEND_SIGNALED;
  write.wr.rdma = {b.Address(0), b.mr->rkey};
  ASSERT_EQ(a.Post(write), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST(ReceiverNotReadyTest, NobodyThereExceedsTheRetries) {
  EndOptions options;
  options.timeout = 10;  // 4.2 ms.
  options.retry_count = 1;
  End a(options);
  End b;
  a.peer = &b;  // b stays in RESET.
  b.peer = &a;
  a.BringTo(IBV_QPS_RTS);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(a.Outcome(2), IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a.State(), IBV_QPS_ERR);
}

}  // namespace
}  // namespace verbena::conformance
