// Memory windows, and what invalidates them.

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "tests/conformance/differences.h"
#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

constexpr unsigned int kAllRemote =
    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

// b opens windows of its region, which has no remote rights itself, to a.
class MemoryWindowsTest : public testing::Test {
 protected:
  MemoryWindowsTest() {
    Connect(a, b);
    region = Verbs().reg_mr(b.pd, b.memory, 4096,
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    one = ibv_alloc_mw(b.pd, IBV_MW_TYPE_1);
    two = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2);
    EXPECT_NE(region, nullptr);
    EXPECT_NE(one, nullptr);
    EXPECT_NE(two, nullptr);
  }
  ~MemoryWindowsTest() override {
    EXPECT_EQ(ibv_dealloc_mw(one), 0);
    if (two != nullptr) {
      EXPECT_EQ(ibv_dealloc_mw(two), 0);
    }
    EXPECT_EQ(Verbs().dereg_mr(region), 0);
  }

  ibv_mw_bind_info Part(unsigned int access, size_t offset, uint64_t length) {
    return {region, b.Address(offset), length, access};
  }
  int PostBindOne(ibv_mw_bind_info part) {
    ibv_mw_bind bind = {5, IBV_SEND_SIGNALED, part};
    return ibv_bind_mw(b.qp, one, &bind);
  }
  // Under the next key.
  int PostBindTwo(ibv_mw_bind_info part) {
    ibv_send_wr request = {};
    request.wr_id = 5;
    request.opcode = IBV_WR_BIND_MW;
    request.send_flags = IBV_SEND_SIGNALED;
    request.bind_mw.mw = two;
    request.bind_mw.rkey = ibv_inc_rkey(two->rkey);
    request.bind_mw.bind_info = part;
    const int error = b.Post(request);
    two->rkey = request.bind_mw.rkey;
    return error;
  }
  void BindOne(ibv_mw_bind_info part) {
    ASSERT_EQ(PostBindOne(part), 0);
    EXPECT_EQ(b.Outcome(5), IBV_WC_SUCCESS);
  }
  void BindTwo(ibv_mw_bind_info part) {
    ASSERT_EQ(PostBindTwo(part), 0);
    EXPECT_EQ(b.Outcome(5), IBV_WC_SUCCESS);
  }
  int Invalidate(uint32_t key) { return b.Invalidate(6, key); }
  // a sends four bytes and invalidates a key of b.
  int SendInvalidate(uint32_t key, size_t bytes = 4) {
    return a.SendInvalidate(8, 0, bytes, key);
  }
  ibv_wc_status WriteOutcome(uint32_t key, size_t offset) {
    EXPECT_EQ(a.Write(1, 0, 4, b.Address(offset), key), 0);
    return a.Outcome(1);
  }

  End a{WithAtomics()};
  End b{WithAtomics()};
  ibv_mr* region = nullptr;
  ibv_mw* one = nullptr;
  ibv_mw* two = nullptr;
};

TEST_F(MemoryWindowsTest, TypeOneOpensAPartOfARegion) {
  const uint32_t before = one->rkey;
  ASSERT_EQ(PostBindOne(Part(kAllRemote, 64, 64)), 0);
  EXPECT_NE(one->rkey, before);
  const ibv_wc bound = b.Wait();
  EXPECT_EQ(bound.wr_id, 5u);
  EXPECT_EQ(bound.status, IBV_WC_SUCCESS);
  EXPECT_EQ(bound.opcode, IBV_WC_BIND_MW);
  a.Fill(0, "text");
  EXPECT_EQ(WriteOutcome(one->rkey, 64), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Text(64, 4), "text");
  ASSERT_EQ(a.Read(2, 32, 4, b.Address(64), one->rkey), 0);
  EXPECT_EQ(a.Outcome(2), IBV_WC_SUCCESS);
  EXPECT_EQ(a.Text(32, 4), "text");
  ASSERT_EQ(a.FetchAdd(3, 40, b.Address(72), one->rkey, 3), 0);
  EXPECT_EQ(a.Outcome(3), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Word(72), 3u);
}

TEST_F(MemoryWindowsTest, BesideItsPartItOpensNothing) {
  BindOne(Part(kAllRemote, 64, 64));
  EXPECT_EQ(WriteOutcome(one->rkey, 62), Keeps(Promise::kAWindowEndsWhereItDoes)
                                             ? IBV_WC_REM_ACCESS_ERR
                                             : IBV_WC_SUCCESS);
}

TEST_F(MemoryWindowsTest, TypeTwoOpensItToTheQueuePair) {
  ASSERT_EQ(PostBindTwo(Part(kAllRemote, 64, 64)), 0);
  EXPECT_EQ(b.Wait().opcode, IBV_WC_BIND_MW);
  a.Fill(0, "text");
  EXPECT_EQ(WriteOutcome(two->rkey, 64), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Text(64, 4), "text");
}

TEST_F(MemoryWindowsTest, TypeTwoIsClosedToOtherQueuePairsOfTheDomain) {
  BindTwo(Part(kAllRemote, 64, 64));
  End c(WithAtomics());
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = b.cq;
  attributes.cap = {4, 4, 1, 1, 0};
  attributes.qp_type = IBV_QPT_RC;
  ibv_qp* const first = b.qp;
  b.qp = Verbs().create_qp(b.pd, &attributes);
  ASSERT_NE(b.qp, nullptr);
  Connect(c, b);
  ASSERT_EQ(c.Write(1, 0, 4, b.Address(64), two->rkey), 0);
  EXPECT_EQ(c.Outcome(1), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(Verbs().destroy_qp(b.qp), 0);
  b.qp = first;
}

TEST_F(MemoryWindowsTest, ItsRightsAreItsOwn) {
  BindTwo(Part(IBV_ACCESS_REMOTE_READ, 64, 64));
  EXPECT_EQ(WriteOutcome(two->rkey, 64), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(MemoryWindowsTest, ALocalRightIsIgnored) {
  BindTwo(Part(kAllRemote | IBV_ACCESS_LOCAL_WRITE, 64, 64));
  EXPECT_EQ(WriteOutcome(two->rkey, 64), IBV_WC_SUCCESS);
}

TEST_F(MemoryWindowsTest, ANewWindowsKeyEndsInZeros) {
  EXPECT_EQ((two->rkey & 0xff) == 0,
            Keeps(Promise::kANewWindowsKeyEndsInZeros));
}

// The user chooses only the low eight bits of the key in a binding.
TEST_F(MemoryWindowsTest, TheOtherBitsOfAWindowsKeyAreTheDevices) {
  ibv_send_wr request = {};
  request.wr_id = 5;
  request.opcode = IBV_WR_BIND_MW;
  request.send_flags = IBV_SEND_SIGNALED;
  request.bind_mw.mw = two;
  request.bind_mw.rkey = 0x12345678;
  request.bind_mw.bind_info = Part(kAllRemote, 64, 64);
  ASSERT_EQ(b.Post(request), 0);
  if (!Keeps(Promise::kAWindowsKeyIsTheDevices)) {
    EXPECT_EQ(b.Outcome(5), IBV_WC_MW_BIND_ERR);
    return;
  }
  EXPECT_EQ(b.Outcome(5), IBV_WC_SUCCESS);
  EXPECT_EQ(WriteOutcome((two->rkey & ~0xffu) | 0x78, 64), IBV_WC_SUCCESS);
}

TEST_F(MemoryWindowsTest, AWindowIsNoLocalKey) {
  BindOne(Part(kAllRemote, 0, 64));
  ibv_sge entry = {b.Address(0), 4, one->rkey};
  ibv_send_wr request = {};
  request.wr_id = 9;
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  ASSERT_EQ(b.Post(request), 0);
  EXPECT_EQ(b.Outcome(9), Keeps(Promise::kLocalKeyThatIsNoneIsAProtectionError)
                              ? IBV_WC_LOC_PROT_ERR
                              : IBV_WC_LOC_QP_OP_ERR);
}

TEST_F(MemoryWindowsTest, TypeOneIsBoundAnewUnderAnotherKey) {
  BindOne(Part(kAllRemote, 0, 64));
  const uint32_t before = one->rkey;
  BindOne(Part(kAllRemote, 128, 64));
  EXPECT_EQ(WriteOutcome(one->rkey, 128), IBV_WC_SUCCESS);
  EXPECT_EQ(WriteOutcome(before, 0), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(MemoryWindowsTest, ABindingToNothingCloses) {
  BindOne(Part(kAllRemote, 0, 64));
  if (!Keeps(Promise::kTypeOneMayBeBoundToNothing)) return;
  BindOne({nullptr, 0, 0, 0});
  EXPECT_EQ(WriteOutcome(one->rkey, 0), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(MemoryWindowsTest, APartBeyondTheRegionIsABindingError) {
  ASSERT_EQ(PostBindTwo(Part(kAllRemote, 4000, 100)), 0);
  const ibv_wc refused = b.Wait();
  EXPECT_EQ(refused.wr_id, 5u);
  EXPECT_EQ(refused.status, IBV_WC_MW_BIND_ERR);
  EXPECT_EQ(b.State(), IBV_QPS_ERR);
}

TEST_F(MemoryWindowsTest, ARegionMustAllowToBeBoundTo) {
  ibv_mr* const plain =
      Verbs().reg_mr(b.pd, b.memory, 4096, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(plain, nullptr);
  ASSERT_EQ(PostBindTwo({plain, b.Address(0), 64, kAllRemote}), 0);
  EXPECT_EQ(b.Outcome(5), IBV_WC_MW_BIND_ERR);
  EXPECT_EQ(Verbs().dereg_mr(plain), 0);
}

TEST_F(MemoryWindowsTest, WhatCannotBeWrittenHereCannotBeOpenedForWriting) {
  ibv_mr* const readable =
      Verbs().reg_mr(b.pd, b.memory, 4096, IBV_ACCESS_MW_BIND);
  ASSERT_NE(readable, nullptr);
  ASSERT_EQ(PostBindTwo({readable, b.Address(0), 64, IBV_ACCESS_REMOTE_WRITE}),
            0);
  EXPECT_EQ(b.Outcome(5), IBV_WC_MW_BIND_ERR);
  EXPECT_EQ(Verbs().dereg_mr(readable), 0);
}

TEST_F(MemoryWindowsTest, ALocalInvalidationCloses) {
  BindTwo(Part(kAllRemote, 0, 64));
  ASSERT_EQ(Invalidate(two->rkey), 0);
  const ibv_wc done = b.Wait();
  EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  EXPECT_EQ(done.opcode, IBV_WC_LOCAL_INV);
  EXPECT_EQ(WriteOutcome(two->rkey, 0), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(MemoryWindowsTest, AnInvalidatedWindowIsBoundAnew) {
  BindTwo(Part(kAllRemote, 0, 64));
  ASSERT_EQ(Invalidate(two->rkey), 0);
  EXPECT_EQ(b.Outcome(6), IBV_WC_SUCCESS);
  BindTwo(Part(kAllRemote, 64, 64));
  EXPECT_EQ(WriteOutcome(two->rkey, 64), IBV_WC_SUCCESS);
}

TEST_F(MemoryWindowsTest, AWindowOfTypeOneIsNotInvalidated) {
  BindOne(Part(kAllRemote, 0, 64));
  ASSERT_EQ(Invalidate(one->rkey), 0);
  EXPECT_NE(b.Outcome(6), IBV_WC_SUCCESS);
  EXPECT_EQ(b.State(), IBV_QPS_ERR);
}

TEST_F(MemoryWindowsTest, ALocalInvalidationOfARegionIsAnError) {
  ASSERT_EQ(Invalidate(b.mr->rkey), 0);
  EXPECT_EQ(b.Outcome(6), IBV_WC_LOC_QP_OP_ERR);
}

TEST_F(MemoryWindowsTest, ItIsBoundOnceThoughAMessageBeforeItFoundNoReceive) {
  ASSERT_EQ(b.Send(1, 0, 4), 0);
  ASSERT_EQ(PostBindTwo(Part(kAllRemote, 0, 64)), 0);
  EXPECT_TRUE(b.StaysQuiet());
  ASSERT_EQ(a.Receive(2, 100, 64), 0);
  if (!Keeps(Promise::kALocalRequestMayFollowAMessageThatWaits)) {
    EXPECT_TRUE(b.StaysQuiet());
    return;
  }
  EXPECT_EQ(b.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Outcome(5), IBV_WC_SUCCESS);
  EXPECT_EQ(a.Outcome(2), IBV_WC_SUCCESS);
  EXPECT_EQ(WriteOutcome(two->rkey, 0), IBV_WC_SUCCESS);
}

TEST_F(MemoryWindowsTest, ALongSendInvalidatesAtItsEnd) {
  BindTwo(Part(kAllRemote, 0, 64));
  ASSERT_EQ(b.Receive(7, 4096, 50'000), 0);
  ASSERT_EQ(SendInvalidate(two->rkey, 50'000), 0);
  EXPECT_EQ(b.Wait().invalidated_rkey, two->rkey);
}

TEST_F(MemoryWindowsTest, ASendInvalidatesAndSaysSo) {
  BindTwo(Part(kAllRemote, 0, 64));
  ASSERT_EQ(b.Receive(7, 100, 64), 0);
  a.Fill(0, "done");
  ASSERT_EQ(SendInvalidate(two->rkey), 0);
  const ibv_wc received = b.Wait();
  EXPECT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ((received.wc_flags & IBV_WC_WITH_INV) != 0,
            Keeps(Promise::kAnInvalidationSetsItsFlag));
  EXPECT_EQ(received.invalidated_rkey, two->rkey);
  EXPECT_EQ(b.Text(100, 4), "done");
  const ibv_wc sent = a.Wait();
  EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
  EXPECT_EQ(sent.opcode, IBV_WC_SEND);
  EXPECT_EQ(WriteOutcome(two->rkey, 0), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(MemoryWindowsTest, ASendThatInvalidatesWhatItMayNotEndsBothSides) {
  BindOne(Part(kAllRemote, 0, 64));
  ASSERT_EQ(b.Receive(7, 100, 64), 0);
  ASSERT_EQ(SendInvalidate(one->rkey), 0);
  EXPECT_EQ(a.Outcome(8), Keeps(Promise::kForbiddenInvalidationIsAnAccessError)
                              ? IBV_WC_REM_ACCESS_ERR
                              : IBV_WC_SUCCESS);
  EXPECT_NE(b.Outcome(7), IBV_WC_SUCCESS);
  EXPECT_EQ(b.State(), IBV_QPS_ERR);
}

TEST_F(MemoryWindowsTest, ARegionWithABoundWindowIsBusy) {
  BindTwo(Part(kAllRemote, 0, 64));
  EXPECT_EQ(Verbs().dereg_mr(region),
            Keeps(Promise::kRegionWithABoundWindowIsBusy) ? EBUSY : EINVAL);
  ASSERT_EQ(Invalidate(two->rkey), 0);
  EXPECT_EQ(b.Outcome(6), IBV_WC_SUCCESS);
}

TEST_F(MemoryWindowsTest, ADestroyedQueuePairTakesItsBindingsAlong) {
  BindTwo(Part(kAllRemote, 0, 64));
  if (!Keeps(Promise::kADestroyedQueuePairTakesItsBindings)) {
    // On rxe the queue pair would wait for 50 s for the window, and the region
    // would answer EINVAL.
    EXPECT_EQ(ibv_dealloc_mw(two), 0);
    two = nullptr;
  }
  EXPECT_EQ(Verbs().destroy_qp(b.qp), 0);
  b.qp = nullptr;
  ibv_mr* const bound = region;
  region = Verbs().reg_mr(b.pd, b.memory, 4096, 0);
  EXPECT_EQ(Verbs().dereg_mr(bound), 0);
}

TEST_F(MemoryWindowsTest, ABoundWindowMayBeDeallocated) {
  BindTwo(Part(kAllRemote, 0, 64));
  const uint32_t key = two->rkey;
  EXPECT_EQ(ibv_dealloc_mw(two), 0);
  two = nullptr;
  EXPECT_EQ(WriteOutcome(key, 0), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(MemoryWindowsTest, ADomainWithAWindowIsBusy) {
  ibv_pd* const pd = Verbs().alloc_pd(b.context);
  ibv_mw* const window = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
  ASSERT_NE(window, nullptr);
  EXPECT_EQ(Verbs().dealloc_pd(pd), EBUSY);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  EXPECT_EQ(Verbs().dealloc_pd(pd), 0);
}

TEST_F(MemoryWindowsTest, ADatagramQueuePairBindsNone) {
  EndOptions options;
  options.type = IBV_QPT_UD;
  End datagrams(options);
  datagrams.BringTo(IBV_QPS_RTS);
  ibv_mr* const mr =
      Verbs().reg_mr(datagrams.pd, datagrams.memory, 4096,
                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  ibv_mw* const window = ibv_alloc_mw(datagrams.pd, IBV_MW_TYPE_1);
  ASSERT_NE(mr, nullptr);
  ASSERT_NE(window, nullptr);
  ibv_mw_bind bind = {
      1, IBV_SEND_SIGNALED, {mr, datagrams.Address(0), 64, kAllRemote}};
  const uint32_t key = window->rkey;
  EXPECT_EQ(ibv_bind_mw(datagrams.qp, window, &bind), EINVAL);
  EXPECT_EQ(window->rkey, key);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  EXPECT_EQ(Verbs().dereg_mr(mr), 0);
}

}  // namespace
}  // namespace verbena::conformance
