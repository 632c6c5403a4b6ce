// Protection domains and memory regions: what may be registered, what is in
// use, and what a local key allows.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "tests/conformance/differences.h"
#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

class RegionsTest : public testing::Test {
 protected:
  RegionsTest() { Connect(a, b); }

  // SEND from `entry` of a; the status of its completion.
  ibv_wc_status SendFrom(ibv_sge entry) {
    EXPECT_EQ(b.Receive(9, 0, b.options.memory_bytes), 0);
    ibv_send_wr request = {};
    request.wr_id = 1;
    request.sg_list = &entry;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    EXPECT_EQ(a.Post(request), 0);
    return a.Outcome(1);
  }

  // Receives into b's memory by `lkey`, which must fail at both ends.
  void ExpectReceiveFails(uint32_t lkey) {
    ibv_sge entry = {b.Address(0), 4096, lkey};
    ibv_recv_wr receive = {};
    receive.wr_id = 9;
    receive.sg_list = &entry;
    receive.num_sge = 1;
    ASSERT_EQ(b.PostReceive(receive), 0);
    ASSERT_EQ(a.Send(1, 0, 8), 0);
    EXPECT_EQ(a.Outcome(1), IBV_WC_REM_OP_ERR);
    EXPECT_EQ(b.Outcome(9),
              Keeps(Promise::kReceiverNamesWhatWasWrongWithItsReceive)
                  ? IBV_WC_LOC_PROT_ERR
                  : IBV_WC_LOC_QP_OP_ERR);
  }

  // Returns the status of a request whose local key is no key of the queue
  // pair's protection domain.
  static ibv_wc_status KeyError() {
    return Keeps(Promise::kLocalKeyThatIsNoneIsAProtectionError)
               ? IBV_WC_LOC_PROT_ERR
               : IBV_WC_LOC_QP_OP_ERR;
  }

  End a;
  End b;
};

TEST_F(RegionsTest, ADomainWithAQueuePairOrARegionIsBusy) {
  EXPECT_EQ(Verbs().dealloc_pd(a.pd), EBUSY);
  ibv_pd* const pd = Verbs().alloc_pd(a.context);
  ibv_mr* const mr = Verbs().reg_mr(pd, a.memory, 4096, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(Verbs().dealloc_pd(pd), EBUSY);
  EXPECT_EQ(Verbs().dereg_mr(mr), 0);
  EXPECT_EQ(Verbs().dealloc_pd(pd), 0);
}

TEST_F(RegionsTest, ADomainWithASharedReceiveQueueIsBusy) {
  ibv_pd* const pd = Verbs().alloc_pd(a.context);
  ibv_srq_init_attr attributes = {};
  attributes.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  ibv_srq* const srq = Verbs().create_srq(pd, &attributes);
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(Verbs().dealloc_pd(pd), EBUSY);
  EXPECT_EQ(Verbs().destroy_srq(srq), 0);
  EXPECT_EQ(Verbs().dealloc_pd(pd), 0);
}

TEST_F(RegionsTest, RemoteWriteWithoutLocalWriteIsRefused) {
  errno = 0;
  EXPECT_EQ(Verbs().reg_mr(a.pd, a.memory, 4096, IBV_ACCESS_REMOTE_WRITE),
            nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(Verbs().reg_mr(a.pd, a.memory, 4096, IBV_ACCESS_REMOTE_ATOMIC),
            nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(RegionsTest, ARegionMayBeEmptyAndOpensNothing) {
  ibv_mr* const empty = Verbs().reg_mr(b.pd, nullptr, 0, kAllAccess);
  if (!Keeps(Promise::kARegionMayBeEmpty)) {
    EXPECT_EQ(empty, nullptr);
    return;
  }
  ASSERT_NE(empty, nullptr) << "errno " << errno;
  EXPECT_EQ(empty->length, 0u);
  ASSERT_EQ(a.Write(1, 0, 0, 0, empty->rkey), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  ASSERT_EQ(a.Write(2, 0, 1, 0, empty->rkey), 0);
  EXPECT_EQ(a.Outcome(2), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(Verbs().dereg_mr(empty), 0);
}

TEST_F(RegionsTest, ARegionMayBeBasedAtZero) {
  ibv_mr* const based = Verbs().reg_mr(b.pd, b.memory + 4096, 4096,
                                       kAllAccess | IBV_ACCESS_ZERO_BASED);
  if (!Keeps(Promise::kARegionMayBeBasedAtZero)) {
    if (based != nullptr) Verbs().dereg_mr(based);
    return;
  }
  ASSERT_NE(based, nullptr) << "errno " << errno;
  a.Fill(0, "text");
  ASSERT_EQ(a.Write(1, 0, 4, 4092, based->rkey), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Text(8188, 4), "text");
  ASSERT_EQ(a.Write(2, 0, 4, b.Address(4096), based->rkey), 0);
  EXPECT_EQ(a.Outcome(2), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(Verbs().dereg_mr(based), 0);
}

TEST_F(RegionsTest, MemoryThatIsNotMappedIsRefused) {
  constexpr size_t kPage = 4096;
  auto* const pages =
      static_cast<std::byte*>(mmap(nullptr, 16 * kPage, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  munmap(pages + 15 * kPage, kPage);
  for (std::byte* const begin : {pages, pages + 15 * kPage}) {
    errno = 0;
    EXPECT_EQ(Verbs().reg_mr(a.pd, begin, pages + 16 * kPage - begin,
                             IBV_ACCESS_LOCAL_WRITE),
              nullptr);
    EXPECT_EQ(errno, EFAULT);
  }
  munmap(pages, 15 * kPage);
}

TEST_F(RegionsTest, TwoRegionsOfOneMemoryHaveTheirOwnKeys) {
  ibv_mr* const one = Verbs().reg_mr(a.pd, a.memory, 4096, kAllAccess);
  ibv_mr* const two = Verbs().reg_mr(a.pd, a.memory, 4096, kAllAccess);
  ASSERT_NE(one, nullptr);
  ASSERT_NE(two, nullptr);
  EXPECT_NE(one->lkey, two->lkey);
  EXPECT_NE(one->rkey, two->rkey);
  EXPECT_EQ(one->addr, a.memory);
  EXPECT_EQ(one->length, 4096u);
  EXPECT_EQ(one->pd, a.pd);
  EXPECT_EQ(Verbs().dereg_mr(one), 0);
  EXPECT_EQ(Verbs().dereg_mr(two), 0);
}

TEST_F(RegionsTest, AReadOnlyRegionMayBeSentFrom) {
  ibv_mr* const mr = Verbs().reg_mr(a.pd, a.memory, 4096, 0);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(SendFrom({a.Address(0), 8, mr->lkey}), IBV_WC_SUCCESS);
  EXPECT_EQ(Verbs().dereg_mr(mr), 0);
}

TEST_F(RegionsTest, ALocalKeyThatIsNoneIsAProtectionError) {
  EXPECT_EQ(SendFrom({a.Address(0), 8, a.mr->lkey ^ 0x55}), KeyError());
  EXPECT_EQ(a.State(), IBV_QPS_ERR);
}

TEST_F(RegionsTest, SoItIsForALongMessage) {
  EXPECT_EQ(SendFrom({a.Address(0), 40'000, a.mr->lkey ^ 0x55}), KeyError());
}

TEST_F(RegionsTest, AReadIntoAReadOnlyRegionIsAProtectionError) {
  ibv_mr* const mr = Verbs().reg_mr(a.pd, a.memory, 4096, 0);
  ASSERT_NE(mr, nullptr);
  ibv_sge entry = {a.Address(0), 8, mr->lkey};
  ibv_send_wr request = {};
  request.wr_id = 1;
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_READ;
  request.wr.rdma = {b.Address(0), b.mr->rkey};
  ASSERT_EQ(a.Post(request), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(Verbs().dereg_mr(mr), 0);
}

TEST_F(RegionsTest, AnEntryPastTheEndOfItsRegionIsAProtectionError) {
  EXPECT_EQ(SendFrom({a.Address(a.options.memory_bytes - 4), 8, a.mr->lkey}),
            IBV_WC_LOC_PROT_ERR);
}

TEST_F(RegionsTest, AnEntryBeforeItsRegionIsAProtectionError) {
  EXPECT_EQ(SendFrom({a.Address(0) - 1, 8, a.mr->lkey}), IBV_WC_LOC_PROT_ERR);
}

TEST_F(RegionsTest, ARegionOfAnotherDomainIsAProtectionError) {
  ibv_pd* const other = Verbs().alloc_pd(a.context);
  ibv_mr* const mr = Verbs().reg_mr(other, a.memory, 4096, kAllAccess);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(SendFrom({a.Address(0), 8, mr->lkey}), KeyError());
  EXPECT_EQ(Verbs().dereg_mr(mr), 0);
  EXPECT_EQ(Verbs().dealloc_pd(other), 0);
}

TEST_F(RegionsTest, ADeregisteredRegionIsAProtectionError) {
  ibv_mr* const mr = Verbs().reg_mr(a.pd, a.memory, 4096, kAllAccess);
  ASSERT_NE(mr, nullptr);
  const uint32_t lkey = mr->lkey;
  EXPECT_EQ(Verbs().dereg_mr(mr), 0);
  EXPECT_EQ(SendFrom({a.Address(0), 8, lkey}), KeyError());
}

TEST_F(RegionsTest, AReceiveIntoAReadOnlyRegionFailsAtBothEnds) {
  ibv_mr* const mr = Verbs().reg_mr(b.pd, b.memory, 4096, 0);
  ASSERT_NE(mr, nullptr);
  ExpectReceiveFails(mr->lkey);
  EXPECT_EQ(Verbs().dereg_mr(mr), 0);
}

TEST_F(RegionsTest, AReceiveByAKeyThatIsNoneFailsAtBothEnds) {
  ExpectReceiveFails(b.mr->lkey ^ 0x55);
}

}  // namespace
}  // namespace verbena::conformance
