// A message that finds no receive: the sender tries again, as often as it was
// told.

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <string>

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
  EndOptions slow;
  slow.min_rnr_timer = 31;  // Half a second, which is not waited for.
  End a(Retries(0));
  End b(slow);
  Connect(a, b);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(a.Outcome(2), IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a.State(), IBV_QPS_ERR);
  EXPECT_EQ(b.State(), IBV_QPS_RTS);  // The receiver is not at fault.
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

// Each of three messages needs the one retry that there is. Returns false if a
// receive was posted so late that the retry may have come before it.
bool RestoreTheRetry() {
  EndOptions slow;
  slow.min_rnr_timer = 0;  // 655 ms: time to post a receive.
  End a(Retries(1));
  End b(slow);
  Connect(a, b);
  for (uint64_t i = 0; i < 3; ++i) {
    const absl::Time start = absl::Now();
    EXPECT_EQ(a.Send(i, 0, 8), 0);
    EXPECT_TRUE(b.StaysQuiet());  // Meanwhile it is refused once.
    EXPECT_EQ(b.Receive(i, 0, 8), 0);
    if (absl::Now() - start > absl::Milliseconds(600)) return false;
    EXPECT_EQ(b.Outcome(i), IBV_WC_SUCCESS);
    EXPECT_EQ(a.Outcome(i), IBV_WC_SUCCESS);
  }
  return true;
}

TEST(ReceiverNotReadyTest, ASuccessRestoresTheRetries) {
  for (int tries = 0; tries < 10; ++tries) {
    if (RestoreTheRetry()) return;
  }
  FAIL() << "the machine has no time to post a receive within 600 ms";
}

TEST(ReceiverNotReadyTest, WhatIsBehindItKeepsItsOrder) {
  End a;
  End b;
  Connect(a, b);
  a.Fill(0, "first");
  a.Fill(100, "write");
  a.Fill(200, "third");
  b.Fill(1000, "reply");
  ASSERT_EQ(a.Send(1, 0, 5), 0);
  ASSERT_EQ(a.Write(2, 100, 5, b.Address(2000), b.mr->rkey), 0);
  ASSERT_EQ(a.Read(3, 300, 5, b.Address(1000), b.mr->rkey), 0);
  ASSERT_EQ(a.Send(4, 200, 5), 0);
  EXPECT_TRUE(a.StaysQuiet());
  EXPECT_EQ(b.Text(2000, 5), std::string(5, '\0'))
      << "ran ahead of the message";
  ASSERT_EQ(b.Receive(10, 0, 64), 0);
  for (uint64_t i = 1; i < 4; ++i) EXPECT_EQ(a.Outcome(i), IBV_WC_SUCCESS);
  EXPECT_TRUE(a.StaysQuiet());
  EXPECT_EQ(b.Outcome(10), IBV_WC_SUCCESS);
  ASSERT_EQ(b.Receive(11, 64, 64), 0);
  EXPECT_EQ(a.Outcome(4), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Outcome(11), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Text(0, 5), "first");
  EXPECT_EQ(b.Text(2000, 5), "write");
  EXPECT_EQ(a.Text(300, 5), "reply");
  EXPECT_EQ(b.Text(64, 5), "third");
}

TEST(ReceiverNotReadyTest, ALongMessageBeginsAgain) {
  End a(Large());
  End b(Large());
  Connect(a, b);
  const std::string text(1'000'000, 'x');
  a.Fill(0, text);
  ASSERT_EQ(a.Send(1, 0, text.size()), 0);
  EXPECT_TRUE(a.StaysQuiet());
  ASSERT_EQ(b.Receive(2, 0, text.size()), 0);
  EXPECT_EQ(b.Wait().byte_len, text.size());
  EXPECT_TRUE(b.Text(0, text.size()) == text);
}

TEST(ReceiverNotReadyTest, ReadsAreAnsweredMeanwhileInBothDirections) {
  End a;
  End b;
  Connect(a, b);
  b.Fill(0, "data");
  a.Fill(0, "back");
  ASSERT_EQ(a.Read(1, 100, 4, b.Address(0), b.mr->rkey), 0);
  ASSERT_EQ(a.Send(2, 300, 8), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(a.Text(100, 4), "data");
  ASSERT_EQ(b.Read(3, 200, 4, a.Address(0), a.mr->rkey), 0);
  EXPECT_EQ(b.Outcome(3), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Text(200, 4), "back");
}

TEST(ReceiverNotReadyTest, ItIsTriedAgainThoughNobodyPolls) {
  EndOptions options;
  options.with_channel = true;
  End a;
  End b(options);
  Connect(a, b);
  ASSERT_EQ(ibv_req_notify_cq(b.cq, 0), 0);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_FALSE(b.ChannelIsReadable(false));
  ASSERT_EQ(b.Receive(2, 0, 8), 0);
  EXPECT_TRUE(b.ChannelIsReadable(true));
  b.TakeCompletionEvent();
  EXPECT_EQ(b.Outcome(2), IBV_WC_SUCCESS);
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

TEST(ReceiverNotReadyTest, AWriteWithImmediateWaitsToo) {
  End a;
  End b;
  Connect(a, b);
  a.Fill(0, "imm");
  ibv_sge entry = a.Entry(0, 3);
  ibv_send_wr write = {};
  write.wr_id = 1;
  write.sg_list = &entry;
  write.num_sge = 1;
  write.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  write.imm_data = htonl(5);
  write.send_flags = IBV_SEND_SIGNALED;
  write.wr.rdma = {b.Address(50), b.mr->rkey};
  ASSERT_EQ(a.Post(write), 0);
  EXPECT_TRUE(a.StaysQuiet());
  ASSERT_EQ(b.Receive(2, 0, 0), 0);
  EXPECT_EQ(b.Wait().imm_data, htonl(5));
  EXPECT_EQ(b.Text(50, 3), "imm");
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
}

// A peer that does not answer, for one reason or another.
class NobodyThereTest : public testing::Test {
 protected:
  static EndOptions Impatient() {
    EndOptions options;
    options.timeout = 10;  // 4.2 ms.
    options.retry_count = 1;
    return options;
  }
  void ExpectRetriesExceeded() {
    EXPECT_EQ(a.Outcome(1), IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(a.Outcome(2), IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(a.State(), IBV_QPS_ERR);
  }

  End a{Impatient()};
  End b;
};

TEST_F(NobodyThereTest, APeerInReset) {
  a.peer = &b;
  b.peer = &a;
  a.BringTo(IBV_QPS_RTS);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  ExpectRetriesExceeded();
}

TEST_F(NobodyThereTest, APeerInError) {
  Connect(a, b);
  ASSERT_EQ(b.To(IBV_QPS_ERR), 0);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  ExpectRetriesExceeded();
}

TEST_F(NobodyThereTest, APeerThatFailsWhileAMessageWaits) {
  Connect(a, b);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  ASSERT_EQ(b.To(IBV_QPS_ERR), 0);
  ExpectRetriesExceeded();
}

TEST_F(NobodyThereTest, APeerThatIsDestroyedWhileAMessageWaits) {
  Connect(a, b);
  ASSERT_EQ(a.Receive(2, 0, 8), 0);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  ASSERT_EQ(Verbs().destroy_qp(b.qp), 0);
  b.qp = nullptr;
  ExpectRetriesExceeded();
}

TEST_F(NobodyThereTest, ANumberThatNobodyHas) {
  a.peer_number = 0xabcdef;
  a.BringTo(IBV_QPS_RTS);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  ExpectRetriesExceeded();
}

TEST(LatePeerTest, AMessageWaitsForAPeerThatGetsReadyInTime) {
  End a;
  End b;
  a.peer = &b;
  b.peer = &a;
  a.BringTo(IBV_QPS_RTS);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_TRUE(a.StaysQuiet());
  ASSERT_EQ(b.To(IBV_QPS_INIT), 0);
  ASSERT_EQ(b.Receive(2, 0, 8), 0);
  ASSERT_EQ(b.To(IBV_QPS_RTR), 0);
  EXPECT_EQ(b.Outcome(2), IBV_WC_SUCCESS);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace verbena::conformance
