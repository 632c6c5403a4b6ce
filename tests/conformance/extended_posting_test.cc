// Requests that are built in place, by the ibv_wr_... functions.

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include "tests/conformance/differences.h"
#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

EndOptions Extended() {
  EndOptions options = WithAtomics();
  options.operations =
      IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
      IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE |
      IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
      IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
      IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
  return options;
}

// a posts, b has an ordinary queue pair.
class ExtendedPostingTest : public testing::Test {
 protected:
  ExtendedPostingTest() : a(Extended()), b(WithAtomics()), qp(a.extended_qp) {
    Connect(a, b);
    qp->wr_flags = IBV_SEND_SIGNALED;
  }

  void Receives(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(b.Receive(i, 0, 4096), 0);
  }
  void SetData(size_t offset, uint32_t length) {
    ibv_wr_set_sge(qp, a.mr->lkey, a.Address(offset), length);
  }
  void ExpectDone(uint64_t wr_id, ibv_wc_opcode opcode) {
    const ibv_wc completion = a.Wait();
    EXPECT_EQ(completion.wr_id, wr_id);
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    EXPECT_EQ(completion.opcode, opcode);
  }

  End a;
  End b;
  ibv_qp_ex* const qp;
};

TEST_F(ExtendedPostingTest, ItIsTheSameQueuePair) {
  EXPECT_EQ(&qp->qp_base, a.qp);
  EXPECT_EQ(Verbs().qp_to_qp_ex(b.qp), nullptr);
}

TEST_F(ExtendedPostingTest, ABatchIsPostedInOrder) {
  Receives(3);
  a.Fill(0, "one,two");
  ibv_wr_start(qp);
  qp->wr_id = 1;
  ibv_wr_send(qp);
  SetData(0, 4);
  qp->wr_id = 2;
  ibv_wr_send_imm(qp, htonl(99));
  SetData(4, 3);
  qp->wr_id = 3;
  ibv_wr_send(qp);
  ibv_wr_set_sge_list(qp, 0, nullptr);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(b.Wait().byte_len, 4u);
  const ibv_wc second = b.Wait();
  EXPECT_EQ(second.byte_len, 3u);
  EXPECT_EQ(second.imm_data, htonl(99));
  EXPECT_EQ(b.Wait().byte_len, 0u);
  EXPECT_EQ(b.Text(0, 3), "two");
  for (uint64_t i = 1; i <= 3; ++i) ExpectDone(i, IBV_WC_SEND);
}

TEST_F(ExtendedPostingTest, InlineDataMayBeReusedAtOnce) {
  ASSERT_EQ(b.Receive(0, 0, 64), 0);
  ASSERT_EQ(b.Receive(1, 100, 64), 0);
  std::string text = "first";
  char tail[] = "+tail";
  if (!Keeps(Promise::kInlineDataNeedsNoFlag)) {
    qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  }
  ibv_wr_start(qp);
  ibv_wr_send(qp);
  ibv_wr_set_inline_data(qp, text.data(), text.size());
  ibv_wr_send(qp);
  const ibv_data_buf parts[] = {{text.data(), 2}, {tail, 5}};
  ibv_wr_set_inline_data_list(qp, 2, parts);
  text.assign(text.size(), '?');
  std::memset(tail, '?', 5);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  ASSERT_EQ(b.Wait().byte_len, 5u);
  EXPECT_EQ(b.Text(0, 5), "first");
  const std::string list = Keeps(Promise::kAnInlineListIsSent) ? "fi+tail" : "";
  EXPECT_EQ(b.Wait().byte_len, list.size());
  EXPECT_EQ(b.Text(100, list.size()), list);
}

TEST_F(ExtendedPostingTest, WritesAndReadsReachTheOtherSide) {
  Receives(1);
  a.Fill(0, "written");
  ibv_wr_start(qp);
  qp->wr_id = 1;
  ibv_wr_rdma_write(qp, b.mr->rkey, b.Address(100));
  SetData(0, 7);
  qp->wr_id = 2;
  ibv_wr_rdma_read(qp, b.mr->rkey, b.Address(100));
  SetData(200, 7);
  qp->wr_id = 3;
  ibv_wr_rdma_write_imm(qp, b.mr->rkey, b.Address(300), htonl(5));
  SetData(0, 7);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  const ibv_wc told = b.Wait();
  EXPECT_EQ(told.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(told.imm_data, htonl(5));
  EXPECT_EQ(b.Text(100, 7), "written");
  EXPECT_EQ(b.Text(300, 7), "written");
  ExpectDone(1, IBV_WC_RDMA_WRITE);
  ExpectDone(2, IBV_WC_RDMA_READ);
  ExpectDone(3, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(a.Text(200, 7), "written");
}

TEST_F(ExtendedPostingTest, AListIsAsLongAsItsEntries) {
  a.Fill(0, "written");
  ibv_wr_start(qp);
  qp->wr_id = 1;
  ibv_wr_rdma_write(qp, b.mr->rkey, b.Address(100));
  const ibv_sge parts[] = {a.Entry(0, 3), a.Entry(3, 4)};
  ibv_wr_set_sge_list(qp, 2, parts);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  ExpectDone(1, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(b.Text(100, 7) == "written",
            Keeps(Promise::kAListIsAsLongAsItsEntries));
}

TEST_F(ExtendedPostingTest, AtomicsBringWhatWasThere) {
  b.Word(0) = 5;
  ibv_wr_start(qp);
  qp->wr_id = 1;
  ibv_wr_atomic_fetch_add(qp, b.mr->rkey, b.Address(0), 2);
  SetData(0, 8);
  qp->wr_id = 2;
  ibv_wr_atomic_cmp_swp(qp, b.mr->rkey, b.Address(0), 7, 100);
  SetData(8, 8);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  ExpectDone(1, IBV_WC_FETCH_ADD);
  ExpectDone(2, IBV_WC_COMP_SWAP);
  EXPECT_EQ(a.Word(0), 5u);
  EXPECT_EQ(a.Word(8), 7u);
  EXPECT_EQ(b.Word(0), 100u);
}

TEST_F(ExtendedPostingTest, AnAbortedBatchLeavesNoTrace) {
  Receives(2);
  ibv_wr_start(qp);
  qp->wr_id = 1;
  ibv_wr_send(qp);
  SetData(0, 8);
  ibv_wr_abort(qp);
  EXPECT_TRUE(a.StaysQuiet());
  ibv_wr_start(qp);
  qp->wr_id = 2;
  ibv_wr_send(qp);
  SetData(0, 3);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(b.Wait().byte_len, 3u);
  ExpectDone(2, IBV_WC_SEND);
}

TEST_F(ExtendedPostingTest, ABatchThatDoesNotFitIsNotPostedInPart) {
  const ibv_qp_cap granted = a.Granted();
  Receives(1);
  ibv_wr_start(qp);
  for (uint32_t i = 0; i <= granted.max_send_wr; ++i) {
    ibv_wr_send(qp);
    SetData(0, 8);
  }
  EXPECT_EQ(ibv_wr_complete(qp),
            Keeps(Promise::kAFullQueueIsOutOfMemoryToABatch) ? ENOMEM : ENOSPC);
  EXPECT_TRUE(b.StaysQuiet());
  ibv_wr_start(qp);
  for (uint32_t i = 0; i < granted.max_send_wr; ++i) {
    ibv_wr_send(qp);
    SetData(0, 8);
  }
  EXPECT_EQ(ibv_wr_complete(qp), 0) << "what does fit";
  ExpectDone(0, IBV_WC_SEND);
}

TEST_F(ExtendedPostingTest, ABatchOfAnotherThreadWaits) {
  Receives(2);
  ibv_wr_start(qp);
  qp->wr_id = 1;
  ibv_wr_send(qp);
  SetData(0, 8);
  std::atomic<bool> started = false;
  std::thread other([&] {
    started = true;
    ibv_wr_start(qp);
    qp->wr_id = 2;
    ibv_wr_send(qp);
    SetData(0, 8);
    EXPECT_EQ(ibv_wr_complete(qp), 0);
  });
  while (!started) std::this_thread::yield();
  EXPECT_EQ(ibv_wr_complete(qp), 0);
  other.join();
  ExpectDone(1, IBV_WC_SEND);
  ExpectDone(2, IBV_WC_SEND);
}

TEST_F(ExtendedPostingTest, MoreInlineThanAskedForSpoilsTheBatch) {
  const ibv_qp_cap granted = a.Granted();
  Receives(2);
  std::string text(granted.max_inline_data + 1, 'x');
  ibv_wr_start(qp);
  ibv_wr_send(qp);
  SetData(0, 8);
  ibv_wr_send(qp);
  ibv_wr_set_inline_data(qp, text.data(), text.size());
  EXPECT_NE(ibv_wr_complete(qp), 0);
  EXPECT_TRUE(b.StaysQuiet());
}

TEST_F(ExtendedPostingTest, AnOrdinaryPostAndABatchShareTheQueue) {
  Receives(3);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  ibv_wr_start(qp);
  qp->wr_id = 2;
  ibv_wr_send(qp);
  SetData(0, 8);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  ASSERT_EQ(a.Send(3, 0, 8), 0);
  for (uint64_t i = 1; i <= 3; ++i) ExpectDone(i, IBV_WC_SEND);
}

TEST_F(ExtendedPostingTest, AWindowIsBoundAndInvalidated) {
  ibv_mr* const region = Verbs().reg_mr(
      a.pd, a.memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  ibv_mw* const window = ibv_alloc_mw(a.pd, IBV_MW_TYPE_2);
  ASSERT_NE(region, nullptr);
  ASSERT_NE(window, nullptr);
  const uint32_t key = ibv_inc_rkey(window->rkey);
  const ibv_mw_bind_info part = {region, a.Address(0), 64,
                                 IBV_ACCESS_REMOTE_WRITE};
  ibv_wr_start(qp);
  qp->wr_id = 1;
  ibv_wr_bind_mw(qp, window, key, &part);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  ExpectDone(1, IBV_WC_BIND_MW);
  b.Fill(0, "by window");
  ASSERT_EQ(b.Write(2, 0, 9, a.Address(0), key), 0);
  EXPECT_EQ(b.Outcome(2), IBV_WC_SUCCESS);
  EXPECT_EQ(a.Text(0, 9), "by window");
  ibv_wr_start(qp);
  qp->wr_id = 3;
  ibv_wr_local_inv(qp, key);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  ExpectDone(3, IBV_WC_LOCAL_INV);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  EXPECT_EQ(Verbs().dereg_mr(region), 0);
}

TEST(ExtendedDatagramsTest, AMessageGoesToTheAddressThatWasSet) {
  EndOptions options;
  options.operations = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  DatagramEnd a(options);
  DatagramEnd b;
  ASSERT_EQ(b.Receive(7, 0, 100), 0);
  a.Fill(0, "hello");
  a.peer = &b;
  b.peer = &a;
  ibv_qp_ex* const qp = a.extended_qp;
  ibv_wr_start(qp);
  qp->wr_id = 1;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send_imm(qp, htonl(3));
  ibv_wr_set_ud_addr(qp, a.Handle(b.gid.gid), b.qp->qp_num, kTestQkey);
  ibv_wr_set_sge(qp, a.mr->lkey, a.Address(0), 5);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  const ibv_wc received = b.Wait();
  EXPECT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.imm_data, htonl(3));
  EXPECT_EQ(received.src_qp, a.qp->qp_num);
  EXPECT_EQ(b.Text(kGrhBytes, 5), "hello");
}

int CreateError(End& end, ibv_qp_type type, uint64_t operations) {
  ibv_qp_init_attr_ex attributes = {};
  attributes.send_cq = attributes.recv_cq = end.cq;
  attributes.cap = {4, 4, 1, 1, 0};
  attributes.qp_type = type;
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attributes.pd = end.pd;
  attributes.send_ops_flags = operations;
  errno = 0;
  ibv_qp* const qp = ibv_create_qp_ex(end.context, &attributes);
  if (qp == nullptr) return errno;
  EXPECT_EQ(Verbs().destroy_qp(qp), 0);
  return 0;
}

TEST(ExtendedQueuePairTest, OperationsThatTheTypeHasNotAreRefused) {
  End end;
  EXPECT_EQ(CreateError(end, IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_WRITE), 0);
  EXPECT_EQ(CreateError(end, IBV_QPT_RC, IBV_QP_EX_WITH_TSO), EOPNOTSUPP);
  EXPECT_EQ(CreateError(end, IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ), EOPNOTSUPP);
  EXPECT_EQ(CreateError(end, IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE),
            EOPNOTSUPP);
}

}  // namespace
}  // namespace verbena::conformance
