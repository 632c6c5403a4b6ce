// Unreliable connections: what arrives, what is lost, and who is told.

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/conformance/differences.h"
#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

EndOptions Unreliable() {
  EndOptions options = WithAtomics();
  options.type = IBV_QPT_UC;
  options.memory_bytes = 1 << 20;
  return options;
}

class UnreliableConnectionsTest : public testing::Test {
 protected:
  UnreliableConnectionsTest() { Connect(a, b); }

  // A request of a over its first `length` bytes.
  int Post(ibv_wr_opcode opcode, size_t length, ibv_send_wr request = {}) {
    ibv_sge entry = a.Entry(0, length);
    request.sg_list = &entry;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    return a.Post(request);
  }
  // Expects that b still takes messages, the next one into receive `wr_id`.
  void ExpectNextArrives(uint64_t wr_id) {
    a.Fill(1000, "next");
    ASSERT_EQ(a.Send(1, 1000, 4), 0);
    EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
    const ibv_wc received = b.Wait();
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.wr_id, wr_id);
    EXPECT_EQ(received.byte_len, 4u);
    EXPECT_EQ(b.Text(0, 4), "next");
    EXPECT_TRUE(b.StaysQuiet());
    EXPECT_EQ(b.State(), IBV_QPS_RTS);
    EXPECT_TRUE(b.HasNoAsyncEvent());
  }

  // Waits until b has taken, or lost, all that a has sent. No answer tells of
  // that, but what comes behind it does.
  void ExpectAllTaken() {
    b.Word(kMarker) = 0;
    a.Word(kMarker) = 1;
    ASSERT_EQ(a.Write(2, kMarker, 8, b.Address(kMarker), b.mr->rkey), 0);
    EXPECT_EQ(a.Outcome(2), IBV_WC_SUCCESS);
    const absl::Time deadline = absl::Now() + absl::Seconds(10);
    while (WordByNow(b, kMarker) != 1 && absl::Now() < deadline) {
      EXPECT_TRUE(b.StaysQuiet(&a, 1));
    }
    EXPECT_EQ(WordByNow(b, kMarker), 1u);
  }

  static constexpr size_t kMarker = size_t{512} * 1024;
  End a{Unreliable()};
  End b{Unreliable()};
};

TEST_F(UnreliableConnectionsTest, AMessageArrives) {
  a.Fill(0, "hello");
  ASSERT_EQ(b.Receive(7, 100, 50), 0);
  ASSERT_EQ(a.Send(8, 0, 5), 0);
  const ibv_wc sent = a.Wait();
  EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
  EXPECT_EQ(sent.opcode, IBV_WC_SEND);
  EXPECT_EQ(sent.wr_id, 8u);
  const ibv_wc received = b.Wait();
  EXPECT_EQ(received.wr_id, 7u);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.byte_len, 5u);
  EXPECT_EQ(b.Text(100, 5), "hello");
}

TEST_F(UnreliableConnectionsTest, ImmediateDataArrives) {
  ASSERT_EQ(b.Receive(1, 100, 50), 0);
  ibv_send_wr request = {};
  request.imm_data = htonl(11);
  ASSERT_EQ(Post(IBV_WR_SEND_WITH_IMM, 4, request), 0);
  const ibv_wc received = b.Wait();
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_NE(received.wc_flags & IBV_WC_WITH_IMM, 0u);
  EXPECT_EQ(received.imm_data, htonl(11));
}

TEST_F(UnreliableConnectionsTest, AWriteArrivesBeforeTheMessageBehindIt) {
  a.Fill(0, "data");
  ASSERT_EQ(b.Receive(1, 100, 50), 0);
  ASSERT_EQ(a.Write(2, 0, 4, b.Address(200), b.mr->rkey), 0);
  ASSERT_EQ(a.Send(3, 0, 4), 0);
  EXPECT_EQ(b.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Text(200, 4), "data");
  const ibv_wc written = a.Wait();
  EXPECT_EQ(written.status, IBV_WC_SUCCESS);
  EXPECT_EQ(written.opcode, IBV_WC_RDMA_WRITE);
}

TEST_F(UnreliableConnectionsTest, AWriteWithImmediateTakesAReceive) {
  a.Fill(0, "data");
  ASSERT_EQ(b.Receive(1, 100, 50), 0);
  ibv_send_wr request = {};
  request.imm_data = htonl(22);
  request.wr.rdma = {b.Address(300), b.mr->rkey};
  ASSERT_EQ(Post(IBV_WR_RDMA_WRITE_WITH_IMM, 4, request), 0);
  const ibv_wc received = b.Wait();
  EXPECT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(received.imm_data, htonl(22));
  EXPECT_EQ(received.byte_len, 4u);
  EXPECT_EQ(b.Text(300, 4), "data");
}

TEST_F(UnreliableConnectionsTest, ALongMessageArrivesWhole) {
  const std::string text(50'000, 'x');
  a.Fill(0, text);
  ASSERT_EQ(b.Receive(1, 0, text.size()), 0);
  ASSERT_EQ(a.Send(2, 0, text.size()), 0);
  EXPECT_EQ(b.Wait().byte_len, text.size());
  EXPECT_TRUE(b.Text(0, text.size()) == text);
  EXPECT_EQ(a.Outcome(2), IBV_WC_SUCCESS);
}

TEST_F(UnreliableConnectionsTest, WhatNeedsAnAnswerIsNotDone) {
  const int error = a.Read(1, 0, 8, b.Address(0), b.mr->rkey);
  if (Keeps(Promise::kOpcodeOfAnotherTypeIsRefused)) {
    EXPECT_EQ(error, EINVAL);
    EXPECT_EQ(a.FetchAdd(1, 0, b.Address(0), b.mr->rkey, 1), EINVAL);
    EXPECT_EQ(a.CompareSwap(1, 0, b.Address(0), b.mr->rkey, 0, 1), EINVAL);
  } else {
    ASSERT_EQ(error, 0);
    EXPECT_EQ(a.Outcome(1), IBV_WC_LOC_QP_OP_ERR);
  }
}

TEST_F(UnreliableConnectionsTest, AMessageThatFindsNoReceiveIsLost) {
  for (const size_t size : {size_t{8}, size_t{20'000}}) {
    ASSERT_EQ(a.Send(1, 0, size), 0);
    EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  }
  ExpectAllTaken();
  ASSERT_EQ(b.Receive(9, 0, 64), 0);
  ExpectNextArrives(9);
}

TEST_F(UnreliableConnectionsTest, AnImmediateThatFindsNoReceiveIsLost) {
  ibv_send_wr request = {};
  request.wr.rdma = {b.Address(300), b.mr->rkey};
  ASSERT_EQ(Post(IBV_WR_RDMA_WRITE_WITH_IMM, 4, request), 0);
  EXPECT_EQ(a.Wait().status, IBV_WC_SUCCESS);
  ExpectAllTaken();
  ASSERT_EQ(b.Receive(9, 0, 64), 0);
  ExpectNextArrives(9);
}

TEST_F(UnreliableConnectionsTest, AMessageThatIsTooLongIsLost) {
  for (const size_t size : {size_t{65}, size_t{20'000}}) {
    ASSERT_EQ(b.Receive(size, 0, 64), 0);
    ASSERT_EQ(a.Send(1, 2000, size), 0);
    EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
    if (!Keeps(Promise::kTooLongAnUnreliableMessageIsLost)) {
      EXPECT_NE(b.Outcome(size), IBV_WC_SUCCESS);
      return;
    }
    ExpectAllTaken();
    ExpectNextArrives(size);
  }
}

TEST_F(UnreliableConnectionsTest, AWriteThatIsNotAllowedIsLost) {
  ASSERT_EQ(b.Receive(9, 0, 64), 0);
  b.Fill(64, "keep");
  for (const size_t size : {size_t{4}, size_t{20'000}}) {
    ASSERT_EQ(a.Write(1, 0, size, b.Address(64), b.mr->rkey ^ 0x55), 0);
    EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  }
  ExpectNextArrives(9);
  EXPECT_EQ(b.Text(64, 4), "keep");
}

TEST_F(UnreliableConnectionsTest, ASendFromMemoryThatIsNotOursIsOurError) {
  ibv_sge entry = {a.Address(0), 8, a.mr->lkey ^ 0x55};
  ibv_send_wr request = {};
  request.wr_id = 1;
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(a.Post(request), 0);
  EXPECT_EQ(a.Outcome(1), Keeps(Promise::kLocalKeyThatIsNoneIsAProtectionError)
                              ? IBV_WC_LOC_PROT_ERR
                              : IBV_WC_LOC_QP_OP_ERR);
  EXPECT_EQ(a.State(), IBV_QPS_ERR);
  EXPECT_EQ(b.State(), IBV_QPS_RTS);
}

TEST_F(UnreliableConnectionsTest,
       AReceiveIntoMemoryThatIsNotOursIsTheReceiversError) {
  ibv_sge wrong = {b.Address(0), 64, b.mr->lkey ^ 0x55};
  ibv_recv_wr receive = {};
  receive.wr_id = 7;
  receive.sg_list = &wrong;
  receive.num_sge = 1;
  ASSERT_EQ(b.PostReceive(receive), 0);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Outcome(7),
            Keeps(Promise::kReceiverNamesWhatWasWrongWithItsReceive)
                ? IBV_WC_LOC_PROT_ERR
                : IBV_WC_LOC_QP_OP_ERR);
  EXPECT_EQ(b.State(), IBV_QPS_ERR);
  EXPECT_EQ(a.State(), IBV_QPS_RTS);
}

TEST_F(UnreliableConnectionsTest, AMessageUnderWayToAPeerThatGoesEnds) {
  ASSERT_EQ(b.Receive(1, 0, b.options.memory_bytes), 0);
  ASSERT_EQ(a.Send(1, 0, a.options.memory_bytes), 0);
  ASSERT_EQ(Verbs().destroy_qp(b.qp), 0);
  b.qp = nullptr;
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
}

TEST_F(UnreliableConnectionsTest, WhatIsSentToAPeerInErrorIsSentAndLost) {
  ASSERT_EQ(b.To(IBV_QPS_ERR), 0);
  for (int i = 0; i < 100; ++i) {  // More than any buffer on the way holds.
    ASSERT_EQ(a.Send(1, 0, 16'000), 0);
    EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  }
  EXPECT_EQ(a.State(), IBV_QPS_RTS);
}

TEST_F(UnreliableConnectionsTest, WhatIsSentToAPeerThatIsGoneIsSentAndLost) {
  ASSERT_EQ(a.Receive(5, 0, 8), 0);
  ASSERT_EQ(Verbs().destroy_qp(b.qp), 0);
  b.qp = nullptr;
  EXPECT_TRUE(a.StaysQuiet());
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(a.Send(1, 0, 16'000), 0);
    EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  }
  EXPECT_EQ(a.State(), IBV_QPS_RTS);
}

TEST_F(UnreliableConnectionsTest, AfterResetItConnectsAnew) {
  for (End* end : {&a, &b}) ASSERT_EQ(end->To(IBV_QPS_RESET), 0);
  Connect(a, b);
  ASSERT_EQ(b.Receive(9, 0, 64), 0);
  ExpectNextArrives(9);
}

TEST(UnreliableAloneTest, WhatIsSentToAPeerThatIsNotReadyIsSentAndLost) {
  End a(Unreliable());
  End b(Unreliable());
  a.peer = &b;
  a.BringTo(IBV_QPS_RTS);
  for (int i = 0; i < 100; ++i) {  // More than any buffer on the way holds.
    ASSERT_EQ(a.Send(1, 0, 16'000), 0);
    EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  }
  EXPECT_EQ(a.State(), IBV_QPS_RTS);
}

TEST(UnreliableAloneTest, WhatIsSentToANumberThatNobodyHasIsSentAndLost) {
  End a(Unreliable());
  a.peer_number = 0xabcdef;
  a.BringTo(IBV_QPS_RTS);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(a.State(), IBV_QPS_RTS);
}

TEST(UnreliableStatesTest, AttributesOfReliableConnectionsAreRefused) {
  End end(Unreliable());
  end.BringTo(IBV_QPS_INIT);
  ibv_qp_attr attributes = end.AttributesFor(IBV_QPS_RTR);
  const int mask = end.MaskFor(IBV_QPS_RTR);
  EXPECT_EQ(
      Verbs().modify_qp(end.qp, &attributes, mask | IBV_QP_MAX_DEST_RD_ATOMIC),
      EINVAL);
  EXPECT_EQ(Verbs().modify_qp(end.qp, &attributes, mask | IBV_QP_MIN_RNR_TIMER),
            EINVAL);
  EXPECT_EQ(Verbs().modify_qp(end.qp, &attributes, mask), 0);
}

}  // namespace
}  // namespace verbena::conformance
