// SEND and RECEIVE: sizes, lists, inline, immediate data, order.

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/conformance/differences.h"
#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

// Bytes that do not repeat within a message, so that a misplaced part shows.
std::string Pattern(size_t bytes, uint32_t seed) {
  std::string text(bytes, '\0');
  for (char& byte : text) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<char>(seed >> 24);
  }
  return text;
}

class SendReceiveTest : public testing::Test {
 protected:
  SendReceiveTest() : a(Large()), b(Large()) { Connect(a, b); }

  End a;
  End b;
};

TEST_F(SendReceiveTest, EverySizeArrives) {
  // Around the path's MTU of 1024 and a page, long, and around where devices
  // begin to treat a message otherwise: a cache line, the longest inline
  // message, a segment, the ring of a link of the software device.
  for (const size_t bytes :
       {0,     1,     31,    32,     33,     63,     64,     65,   479,
        480,   481,   1023,  1024,   1025,   4095,   4096,   4097, 16383,
        16384, 16385, 65536, 262143, 262144, 262145, 1 << 20}) {
    SCOPED_TRACE(absl::StrCat(bytes, " bytes"));
    const std::string text = Pattern(bytes, static_cast<uint32_t>(bytes));
    a.Fill(3, text);  // Not aligned.
    b.Fill(0, std::string(bytes + 1, '#'));
    ASSERT_EQ(b.Receive(7, 0, bytes + 1), 0);
    ASSERT_EQ(a.Send(1, 3, bytes), 0);
    const ibv_wc received = b.Wait();
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.opcode, IBV_WC_RECV);
    EXPECT_EQ(received.wr_id, 7u);
    EXPECT_EQ(received.byte_len, bytes);
    EXPECT_EQ(received.qp_num, b.qp->qp_num);
    EXPECT_EQ(received.wc_flags & IBV_WC_WITH_IMM, 0u);
    EXPECT_TRUE(b.Text(0, bytes + 1) == text + "#");
    const ibv_wc sent = a.Wait();
    EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
    EXPECT_EQ(sent.opcode, IBV_WC_SEND);
    EXPECT_EQ(sent.wr_id, 1u);
    EXPECT_EQ(sent.qp_num, a.qp->qp_num);
  }
}

TEST_F(SendReceiveTest, ListsAreGatheredAndScattered) {
  a.Fill(0, "one");
  a.Fill(100, "fourfive");
  a.Fill(200, "s");
  ibv_sge from[4] = {a.Entry(0, 3), a.Entry(100, 8), a.Entry(9, 0),
                     a.Entry(200, 1)};
  ibv_sge to[3] = {b.Entry(0, 5), b.Entry(100, 1), b.Entry(200, 64)};
  ibv_recv_wr receive = {};
  receive.sg_list = to;
  receive.num_sge = 3;
  ibv_send_wr send = {};
  send.wr_id = 1;
  send.sg_list = from;
  send.num_sge = 4;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  // A device may treat the first message of all otherwise than the second.
  for (int message = 0; message < 2; ++message) {
    ASSERT_EQ(b.PostReceive(receive), 0);
    ASSERT_EQ(a.Post(send), 0);
    EXPECT_EQ(b.Wait().byte_len, 12u);
    EXPECT_EQ(b.Text(0, 5) + b.Text(100, 1) + b.Text(200, 6), "onefourfives");
    b.Fill(0, std::string(300, '#'));
  }
}

TEST_F(SendReceiveTest, AListOfNothingIsAMessageOfNothing) {
  ibv_recv_wr receive = {};
  receive.wr_id = 3;
  ASSERT_EQ(b.PostReceive(receive), 0);
  ibv_send_wr send = {};
  send.wr_id = 1;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(a.Post(send), 0);
  const ibv_wc received = b.Wait();
  EXPECT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.byte_len, 0u);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
}

TEST_F(SendReceiveTest, InlineMemoryIsFreeWhenThePostReturns) {
  const uint32_t bytes = a.options.inline_bytes;
  const std::string text = Pattern(bytes, 1);
  a.Fill(0, text);
  // Nobody can have read it yet: there is no receive.
  ASSERT_EQ(a.Send(1, 0, bytes, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
  a.Fill(0, std::string(bytes, '!'));
  ASSERT_EQ(b.Receive(7, 0, bytes), 0);
  EXPECT_EQ(b.Outcome(7), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Text(0, bytes), text);
}

TEST_F(SendReceiveTest, InlineMemoryNeedsNoKey) {
  std::string text = "not registered";
  ibv_sge entry = {reinterpret_cast<uint64_t>(text.data()),
                   static_cast<uint32_t>(text.size()), 0};
  ibv_send_wr send = {};
  send.wr_id = 1;
  send.sg_list = &entry;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  ASSERT_EQ(b.Receive(7, 0, 64), 0);
  ASSERT_EQ(a.Post(send), 0);
  EXPECT_EQ(b.Outcome(7), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Text(0, text.size()), text);
}

TEST_F(SendReceiveTest, ImmediateDataComesWithTheCompletion) {
  ibv_sge entry = a.Entry(0, 5);
  ibv_send_wr send = {};
  send.wr_id = 1;
  send.sg_list = &entry;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND_WITH_IMM;
  send.imm_data = htonl(0x12345678);
  send.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(b.Receive(7, 0, 64), 0);
  ASSERT_EQ(a.Post(send), 0);
  const ibv_wc received = b.Wait();
  EXPECT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.byte_len, 5u);
  EXPECT_NE(received.wc_flags & IBV_WC_WITH_IMM, 0u);
  EXPECT_EQ(received.imm_data, htonl(0x12345678));
  EXPECT_EQ(a.Wait().opcode, IBV_WC_SEND);
}

TEST_F(SendReceiveTest, MessagesAndReceivesKeepTheirOrder) {
  for (uint64_t i = 0; i < 12; ++i) {
    a.Fill(i * 8, absl::StrCat("text ", i));
    ASSERT_EQ(b.Receive(100 + i, i * 8, 8), 0);
  }
  for (uint64_t i = 0; i < 12; ++i) ASSERT_EQ(a.Send(i, i * 8, 7), 0);
  for (uint64_t i = 0; i < 12; ++i) {
    EXPECT_EQ(b.Outcome(100 + i), IBV_WC_SUCCESS);
    EXPECT_EQ(a.Outcome(i), IBV_WC_SUCCESS);
    EXPECT_EQ(b.Text(i * 8, 6), absl::StrCat("text ", i).substr(0, 6));
  }
}

TEST_F(SendReceiveTest, BothEndsMaySendAtOnce) {
  for (End* end : {&a, &b}) {
    end->Fill(0, end == &a ? "from a" : "from b");
    ASSERT_EQ(end->Receive(7, 100, 64), 0);
  }
  for (End* end : {&a, &b}) ASSERT_EQ(end->Send(1, 0, 6), 0);
  for (End* end : {&a, &b}) {
    for (int i = 0; i < 2; ++i) EXPECT_EQ(end->Wait().status, IBV_WC_SUCCESS);
  }
  EXPECT_EQ(a.Text(100, 6), "from b");
  EXPECT_EQ(b.Text(100, 6), "from a");
}

TEST_F(SendReceiveTest, AQueuePairMayBeConnectedToItself) {
  EndOptions impatient;
  impatient.timeout = 14;  // 67 ms.
  End alone(impatient);
  alone.BringTo(IBV_QPS_RTS);
  alone.Fill(0, "myself");
  ASSERT_EQ(alone.Receive(7, 100, 64), 0);
  ASSERT_EQ(alone.Send(1, 0, 6), 0);
  if (!Keeps(Promise::kAQueuePairMayBeItsOwnPeer)) {
    EXPECT_EQ(alone.Outcome(1), IBV_WC_RETRY_EXC_ERR);
    return;
  }
  for (int i = 0; i < 2; ++i) EXPECT_EQ(alone.Wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(alone.Text(100, 6), "myself");
}

TEST_F(SendReceiveTest, ManyMessagesMakeNoneOfTheOtherSideWait) {
  // Each side's long messages are under way while it receives the other's.
  constexpr size_t kBytes = 700'000;
  constexpr size_t kTarget = 1 << 20;
  const std::string to_b = Pattern(kBytes, 6);
  const std::string to_a = Pattern(kBytes, 7);
  a.Fill(0, to_b);
  b.Fill(0, to_a);
  for (End* end : {&a, &b}) {
    End& other = end == &a ? b : a;
    ASSERT_EQ(end->Write(1, 0, kBytes, other.Address(kTarget), other.mr->rkey),
              0);
    ASSERT_EQ(end->Read(2, kTarget, kBytes, other.Address(0), other.mr->rkey),
              0);
  }
  for (End* end : {&a, &b}) {
    EXPECT_EQ(end->Outcome(1), IBV_WC_SUCCESS);
    EXPECT_EQ(end->Outcome(2), IBV_WC_SUCCESS);
  }
  EXPECT_TRUE(a.Text(kTarget, kBytes) == to_a);
  EXPECT_TRUE(b.Text(kTarget, kBytes) == to_b);
}

// Whether it is the first message of all or a later one.
TEST_F(SendReceiveTest, AReceiveThatIsTooShortForALaterMessageEndsItToo) {
  ASSERT_EQ(b.Receive(6, 0, 8), 0);
  ASSERT_EQ(b.Receive(7, 0, 7), 0);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Outcome(6), IBV_WC_SUCCESS);
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  const bool exact = Keeps(Promise::kReceiverNamesWhatWasWrongWithItsReceive);
  EXPECT_EQ(b.Outcome(7), exact ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_QP_OP_ERR);
  EXPECT_EQ(a.Outcome(2), exact ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_OP_ERR);
}

TEST_F(SendReceiveTest, AReceiveThatIsTooShortEndsTheConnection) {
  ASSERT_EQ(b.Receive(7, 0, 8), 0);
  ASSERT_EQ(b.Receive(8, 0, 64), 0);
  ASSERT_EQ(a.Send(1, 0, 9), 0);
  ASSERT_EQ(a.Send(2, 0, 1), 0);
  const bool exact = Keeps(Promise::kReceiverNamesWhatWasWrongWithItsReceive);
  EXPECT_EQ(b.Outcome(7), exact ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_QP_OP_ERR);
  EXPECT_EQ(b.Outcome(8), IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a.Outcome(1), exact ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_OP_ERR);
  EXPECT_EQ(a.Outcome(2), IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a.State(), IBV_QPS_ERR);
  EXPECT_EQ(b.State(), IBV_QPS_ERR);
}

}  // namespace
}  // namespace verbena::conformance
