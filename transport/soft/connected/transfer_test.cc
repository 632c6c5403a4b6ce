// Every opcode between two queue pairs of one process, and what arrives.

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

constexpr size_t kBig = 5 << 20;  // Many times the ring, and no power of two
constexpr size_t kOdd = kBig + 12345;

TestEndOptions BigMemory() {
  TestEndOptions options;
  options.memory_bytes = 16 << 20;
  return options;
}

// Bytes that differ from page to page, so that a misplaced segment shows.
std::string Pattern(size_t length, uint32_t seed) {
  std::string bytes(length, '\0');
  uint32_t x = seed;
  for (char& byte : bytes) {
    x = x * 1664525 + 1013904223;
    byte = static_cast<char>(x >> 24);
  }
  return bytes;
}

// a and b, connected; what a sends arrives at b.
class TransferTest : public testing::Test {
 protected:
  TransferTest() { ConnectByHand(a, b); }

  TestEnd a{BigMemory()};
  TestEnd b{BigMemory()};
};

TEST_F(TransferTest, ASendArrivesInThePostedReceive) {
  a.Fill(0, "hello");
  ASSERT_EQ(b.Receive(7, 100, 50), 0);
  ASSERT_EQ(a.Send(8, 0, 5), 0);
  const ibv_wc received = b.Wait(&a);
  EXPECT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.wr_id, 7u);
  EXPECT_EQ(received.byte_len, 5u);
  EXPECT_EQ(received.qp_num, b.qp->qp_num);
  EXPECT_EQ(received.wc_flags, 0u);
  EXPECT_EQ(b.Text(100, 5), "hello");
  const ibv_wc sent = a.Wait(&b);
  EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
  EXPECT_EQ(sent.opcode, IBV_WC_SEND);
  EXPECT_EQ(sent.wr_id, 8u);
  EXPECT_EQ(sent.qp_num, a.qp->qp_num);
}

TEST_F(TransferTest, AnEmptySendArrives) {
  ASSERT_EQ(b.Receive(1, 0, 0), 0);
  ASSERT_EQ(a.Send(2, 0, 0), 0);
  EXPECT_EQ(b.Wait(&a).byte_len, 0u);
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_SUCCESS);
}

TEST_F(TransferTest, BothDirectionsAtOnce) {
  a.Fill(0, "ping");
  b.Fill(0, "pong");
  for (TestEnd* end : {&a, &b}) {
    ASSERT_EQ(end->Receive(1, 64, 64), 0);
    ASSERT_EQ(end->Send(2, 0, 4, 0), 0);
  }
  EXPECT_EQ(a.Wait(&b).wr_id, 1u);
  EXPECT_EQ(b.Wait(&a).wr_id, 1u);
  EXPECT_EQ(a.Text(64, 4), "pong");
  EXPECT_EQ(b.Text(64, 4), "ping");
}

TEST_F(TransferTest, MessagesOfEverySizeKeepTheirBytesAndTheirOrder) {
  const std::vector<size_t> sizes = {0,     1,     31,     32,     33,    63,
                                     64,    65,    479,    480,    481,   512,
                                     4095,  4096,  4097,   16383,  16384, 16385,
                                     32768, 65536, 262143, 262144, 262145};
  for (size_t size : sizes) {
    const std::string text = Pattern(size, static_cast<uint32_t>(size));
    a.Fill(3, text);  // Not aligned, on purpose.
    ASSERT_EQ(b.Receive(size, 16, size), 0);
    ASSERT_EQ(a.Send(size, 3, size), 0);
    const ibv_wc received = b.Wait(&a);
    EXPECT_EQ(received.wr_id, size);
    EXPECT_EQ(received.byte_len, size);
    EXPECT_TRUE(b.Text(16, size) == text) << "size " << size;
    EXPECT_EQ(a.Wait(&b).wr_id, size);
  }
}

TEST_F(TransferTest, ImmediateDataArrivesWithItsMessage) {
  ASSERT_EQ(b.Receive(1, 0, 64), 0);
  a.Fill(0, "abc");
  ibv_sge entry = a.Entry(0, 3);
  ibv_send_wr request = {};
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.imm_data = 0x12345678;
  request.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(a.Post(request), 0);
  const ibv_wc received = b.Wait(&a);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.wc_flags, static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_EQ(received.imm_data, 0x12345678u);
  EXPECT_EQ(received.byte_len, 3u);
}

TEST_F(TransferTest, InlineDataMayBeOverwrittenAtOnce) {
  ASSERT_EQ(b.Receive(1, 0, 64), 0);
  char text[] = "inline";
  // Inline data needs no registered memory.
  ibv_sge entry = {reinterpret_cast<uint64_t>(text), 6, 0};
  ibv_send_wr request = {};
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
  ASSERT_EQ(a.Post(request), 0);
  std::memset(text, 'x', sizeof(text));
  b.Wait(&a);
  EXPECT_EQ(b.Text(0, 6), "inline");
}

TEST_F(TransferTest, SeveralEntriesAreGatheredAndScattered) {
  a.Fill(0, "one");
  a.Fill(1000, "two");
  a.Fill(5000, "three");
  ibv_sge from[] = {a.Entry(0, 3), a.Entry(9, 0), a.Entry(1000, 3),
                    a.Entry(5000, 5)};
  ibv_sge to[] = {b.Entry(0, 4), b.Entry(100, 100)};
  ibv_recv_wr receive = {};
  receive.sg_list = to;
  receive.num_sge = 2;
  ibv_recv_wr* bad_receive = nullptr;
  // Those after the first message of all go another way than that.
  for (int message = 0; message < 2; ++message) {
    ASSERT_EQ(ibv_post_recv(b.qp, &receive, &bad_receive), 0);
    ibv_send_wr request = {};
    request.sg_list = from;
    request.num_sge = 4;
    request.opcode = IBV_WR_SEND;
    ASSERT_EQ(a.Post(request), 0);
    EXPECT_EQ(b.Wait(&a).byte_len, 11u);
    EXPECT_EQ(b.Text(0, 4), "onet");
    EXPECT_EQ(b.Text(100, 7), "wothree");
  }
}

TEST_F(TransferTest, AChainOfRequestsIsPostedAtOnce) {
  ibv_sge entry = a.Entry(0, 8);
  ibv_send_wr requests[3] = {};
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(b.Receive(i, 0, 64), 0);
    requests[i].wr_id = i;
    requests[i].sg_list = &entry;
    requests[i].num_sge = 1;
    requests[i].opcode = IBV_WR_SEND;
    requests[i].next = i < 2 ? &requests[i + 1] : nullptr;
  }
  requests[2].send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a.qp, requests, &bad), 0);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(b.Wait(&a).wr_id, i);
  EXPECT_EQ(a.Wait(&b).wr_id, 2u);  // The only signalled one.
}

TEST_F(TransferTest, AWriteLandsInThePeersMemoryUnseen) {
  a.Fill(0, "written");
  ASSERT_EQ(a.Write(1, 0, 7, b.Address(300), b.mr->rkey), 0);
  const ibv_wc done = a.Wait(&b);
  EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  EXPECT_EQ(done.opcode, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(b.Text(300, 7), "written");
  EXPECT_TRUE(b.StaysQuiet(&a, 100));
}

TEST_F(TransferTest, AWriteIsInPlaceBeforeTheSendThatFollowsIt) {
  const std::string text = Pattern(kOdd, 3);
  a.Fill(64, text);
  ASSERT_EQ(b.Receive(1, 0, 8), 0);
  ASSERT_EQ(a.Write(1, 64, kOdd, b.Address(1000), b.mr->rkey, 0), 0);
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  EXPECT_EQ(b.Wait(&a).opcode, IBV_WC_RECV);
  EXPECT_TRUE(b.Text(1000, kOdd) == text);
}

TEST_F(TransferTest, AWriteWithImmediateTakesAReceive) {
  for (size_t length : {size_t{0}, size_t{9}, size_t{100'000}}) {
    const std::string text = Pattern(length, 4);
    a.Fill(0, text);
    ASSERT_EQ(b.Receive(5, 0, 0), 0);
    ibv_sge entry = a.Entry(0, length);
    ibv_send_wr request = {};
    request.sg_list = &entry;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.imm_data = 77;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma = {b.Address(4096), b.mr->rkey};
    ASSERT_EQ(a.Post(request), 0);
    const ibv_wc received = b.Wait(&a);
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(received.imm_data, 77u);
    EXPECT_EQ(received.byte_len, length);
    EXPECT_TRUE(b.Text(4096, length) == text);
    EXPECT_EQ(a.Wait(&b).opcode, IBV_WC_RDMA_WRITE);
  }
}

TEST_F(TransferTest, AReadFetchesThePeersMemory) {
  for (size_t length : {size_t{0}, size_t{1}, size_t{16384}, kOdd}) {
    const std::string text = Pattern(length, 5);
    b.Fill(777, text);
    ASSERT_EQ(a.Read(1, 5, length, b.Address(777), b.mr->rkey), 0);
    const ibv_wc done = a.Wait(&b);
    EXPECT_EQ(done.status, IBV_WC_SUCCESS);
    EXPECT_EQ(done.opcode, IBV_WC_RDMA_READ);
    EXPECT_EQ(done.byte_len, length);
    EXPECT_TRUE(a.Text(5, length) == text) << "length " << length;
  }
}

TEST_F(TransferTest, ReadsAndWritesInBothDirectionsDoNotBlockOneAnother) {
  const std::string to_b = Pattern(kBig, 6);
  const std::string to_a = Pattern(kBig, 7);
  constexpr size_t kSource = 0;
  constexpr size_t kTarget = 6 << 20;
  a.Fill(kSource, to_b);
  b.Fill(kSource, to_a);
  ASSERT_EQ(a.Write(1, kSource, kBig, b.Address(kTarget), b.mr->rkey), 0);
  ASSERT_EQ(b.Write(1, kSource, kBig, a.Address(kTarget), a.mr->rkey), 0);
  ASSERT_EQ(a.Read(2, kTarget, kBig, b.Address(kSource), b.mr->rkey), 0);
  ASSERT_EQ(b.Read(2, kTarget, kBig, a.Address(kSource), a.mr->rkey), 0);
  for (TestEnd* end : {&a, &b}) {
    TestEnd* other = end == &a ? &b : &a;
    EXPECT_EQ(end->Wait(other).wr_id, 1u);
    EXPECT_EQ(end->Wait(other).wr_id, 2u);
  }
  EXPECT_TRUE(a.Text(kTarget, kBig) == to_a);
  EXPECT_TRUE(b.Text(kTarget, kBig) == to_b);
}

TEST_F(TransferTest, AReadIsAnsweredWhileSendsFindNoReceive) {
  b.Fill(0, "data");
  ASSERT_EQ(a.Read(1, 100, 4, b.Address(0), b.mr->rkey), 0);
  ASSERT_EQ(a.Send(2, 300, 8), 0);  // b has posted nothing.
  EXPECT_EQ(a.Wait(&b).wr_id, 1u);
  EXPECT_EQ(a.Text(100, 4), "data");
  // And b's reads of a, whose answers travel the way of the refused sends.
  a.Fill(0, "back");
  ASSERT_EQ(b.Read(3, 200, 4, a.Address(0), a.mr->rkey), 0);
  EXPECT_EQ(b.Wait(&a).wr_id, 3u);
  EXPECT_EQ(b.Text(200, 4), "back");
}

TEST_F(TransferTest, CompletionsOfASendQueueKeepItsOrder) {
  constexpr size_t kLarge = 1 << 20;
  ASSERT_EQ(b.Receive(1, 0, 64), 0);
  ASSERT_EQ(a.Read(10, 0, kLarge, b.Address(0), b.mr->rkey), 0);
  ASSERT_EQ(a.Send(11, 0, 4), 0);
  ASSERT_EQ(a.Read(12, 0, 8, b.Address(0), b.mr->rkey), 0);
  ASSERT_EQ(a.Write(13, 0, 8, b.Address(0), b.mr->rkey), 0);
  for (uint64_t wr_id : {10, 11, 12, 13}) EXPECT_EQ(a.Wait(&b).wr_id, wr_id);
}

TEST_F(TransferTest, AFencedRequestWaitsForTheReadsBeforeIt) {
  b.Fill(0, "fresh");
  a.Fill(50, "stale");
  ASSERT_EQ(b.Receive(1, 200, 64), 0);
  ASSERT_EQ(a.Read(1, 50, 5, b.Address(0), b.mr->rkey, 0), 0);
  ASSERT_EQ(a.Send(2, 50, 5, IBV_SEND_SIGNALED | IBV_SEND_FENCE), 0);
  EXPECT_EQ(a.Wait(&b).wr_id, 2u);
  b.Wait(&a);
  EXPECT_EQ(b.Text(200, 5), "fresh");
}

TEST(TransferLimitsTest, NoMoreReadsAreOutstandingThanThePeerAccepts) {
  TestEndOptions two;
  two.reads_max = 2;
  two.reads_accepted = 2;
  TestEnd a(two);
  TestEnd b(two);
  ConnectByHand(a, b);
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_EQ(a.Read(i, i * 8, 8, b.Address(0), b.mr->rkey), 0);
  }
  for (uint64_t i = 0; i < 10; ++i) {
    const ibv_wc done = a.Wait(&b);
    EXPECT_EQ(done.wr_id, i);
    EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  }
}

TEST(TransferLimitsTest, EverySendCompletesWhenTheQueuePairSignalsAll) {
  TestEndOptions options;
  options.signal_all = true;
  TestEnd a(options);
  TestEnd b;
  ConnectByHand(a, b);
  ASSERT_EQ(b.Receive(1, 0, 64), 0);
  ASSERT_EQ(a.Send(9, 0, 1, 0), 0);
  EXPECT_EQ(a.Wait(&b).wr_id, 9u);
}

TEST(TransferLimitsTest, AFullSendQueueOfUnsignalledRequestsStaysFull) {
  TestEndOptions options;
  options.send_depth = 4;
  TestEnd a(options);
  TestEnd b;
  ConnectByHand(a, b);
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(a.Write(i, 0, 8, b.Address(0), b.mr->rkey, 0), 0);
  }
  EXPECT_TRUE(a.StaysQuiet(&b, 100));
  EXPECT_EQ(a.Write(4, 0, 8, b.Address(0), b.mr->rkey, 0), ENOMEM);
}

TEST(TransferLimitsTest, PollingASignalledRequestFreesThoseBeforeIt) {
  TestEndOptions options;
  options.send_depth = 4;
  TestEnd a(options);
  TestEnd b;
  ConnectByHand(a, b);
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 4; ++i) {
      ASSERT_EQ(a.Write(i, 0, 8, b.Address(0), b.mr->rkey,
                        i == 3 ? IBV_SEND_SIGNALED : 0),
                0);
    }
    EXPECT_EQ(a.Write(4, 0, 8, b.Address(0), b.mr->rkey, 0), ENOMEM);
    EXPECT_EQ(a.Wait(&b).wr_id, 3u);
  }
}

}  // namespace
}  // namespace verbena::soft
