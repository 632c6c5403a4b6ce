// WRITE and READ that the responder must refuse, and what both ends are told.

#include <gtest/gtest.h>

#include <string>

#include "tests/conformance/differences.h"
#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

class RemoteAccessTest : public testing::Test {
 protected:
  RemoteAccessTest() {
    Connect(a, b);
    a.Fill(0, "overwrite");
  }
  ~RemoteAccessTest() override {
    if (region != nullptr) {
      EXPECT_EQ(Verbs().dereg_mr(region), 0);
    }
  }

  // A region of b over its first page.
  uint32_t RegionOfB(int access) {
    region = Verbs().reg_mr(b.pd, b.memory, 4096, access);
    EXPECT_NE(region, nullptr);
    return region->rkey;
  }

  void ExpectWriteRefused(uint64_t remote, uint32_t rkey, size_t length = 8) {
    ASSERT_EQ(a.Write(1, 0, length, remote, rkey), 0);
    ExpectRefused();
  }

  void ExpectReadRefused(uint64_t remote, uint32_t rkey, size_t length = 8) {
    ASSERT_EQ(a.Read(1, 0, length, remote, rkey), 0);
    ExpectRefused();
  }

  void ExpectRefused() {
    EXPECT_EQ(a.Outcome(1), IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(a.State(), IBV_QPS_ERR);
    EXPECT_EQ(b.State(), IBV_QPS_ERR);
  }

  ibv_mr* region = nullptr;
  End a;
  End b;
};

TEST_F(RemoteAccessTest, AKeyThatIsNone) {
  ExpectWriteRefused(b.Address(0), b.mr->rkey ^ 0x55);
}

TEST_F(RemoteAccessTest, AReadWithAKeyThatIsNone) {
  ExpectReadRefused(b.Address(0), b.mr->rkey ^ 0x55);
}

TEST_F(RemoteAccessTest, ARangeThatEndsBehindTheRegionChangesNothing) {
  const size_t at = b.options.memory_bytes - 4;
  b.Fill(at, "keep");
  ExpectWriteRefused(b.Address(at), b.mr->rkey);
  EXPECT_EQ(b.Text(at, 4), "keep");
}

TEST_F(RemoteAccessTest, ALongWriteThatEndsBehindTheRegionChangesNothing) {
  const uint32_t rkey = RegionOfB(kAllAccess);
  b.Fill(0, "keep");
  ExpectWriteRefused(b.Address(0), rkey, 8192);
  if (Keeps(Promise::kARefusedWriteChangesNothing)) {
    EXPECT_EQ(b.Text(0, 4), "keep");
  } else {
    EXPECT_EQ(b.Text(0, 4), "over");
  }
}

TEST_F(RemoteAccessTest, ARangeThatBeginsBeforeTheRegion) {
  ExpectWriteRefused(b.Address(0) - 1, b.mr->rkey);
}

TEST_F(RemoteAccessTest, ARangeThatWraps) {
  ExpectWriteRefused(UINT64_MAX - 100, b.mr->rkey, 4096);
}

TEST_F(RemoteAccessTest, AReadPastTheEnd) {
  ExpectReadRefused(b.Address(b.options.memory_bytes - 7), b.mr->rkey);
}

TEST_F(RemoteAccessTest, AWriteIntoARegionForReading) {
  ExpectWriteRefused(
      b.Address(0), RegionOfB(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
}

TEST_F(RemoteAccessTest, AReadOfARegionForWriting) {
  ExpectReadRefused(b.Address(0), RegionOfB(IBV_ACCESS_LOCAL_WRITE |
                                            IBV_ACCESS_REMOTE_WRITE));
}

TEST_F(RemoteAccessTest, ARegionOfAnotherDomain) {
  ibv_pd* const other = Verbs().alloc_pd(b.context);
  region = Verbs().reg_mr(other, b.memory, 4096, kAllAccess);
  ASSERT_NE(region, nullptr);
  ExpectWriteRefused(b.Address(0), region->rkey);
  EXPECT_EQ(Verbs().dereg_mr(region), 0);
  region = nullptr;
  EXPECT_EQ(Verbs().dealloc_pd(other), 0);
}

TEST_F(RemoteAccessTest, ADeregisteredRegion) {
  const uint32_t rkey = RegionOfB(kAllAccess);
  EXPECT_EQ(Verbs().dereg_mr(region), 0);
  region = nullptr;
  ExpectReadRefused(b.Address(0), rkey);
}

TEST_F(RemoteAccessTest, RequestsBeforeItSucceedAndLaterOnesAreFlushed) {
  ASSERT_EQ(a.Write(1, 0, 8, b.Address(0), b.mr->rkey), 0);
  ASSERT_EQ(a.Write(2, 0, 8, b.Address(0), b.mr->rkey ^ 0x55), 0);
  ASSERT_EQ(a.Write(3, 0, 8, b.Address(100), b.mr->rkey, 0), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(a.Outcome(2), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(a.Outcome(3), IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(b.Text(0, 8), "overwrit");
  EXPECT_EQ(b.Text(100, 8), std::string(8, '\0'));
}

TEST_F(RemoteAccessTest, AReadBeforeItIsAnswered) {
  b.Fill(0, "good");
  ASSERT_EQ(a.Read(1, 100, 4, b.Address(0), b.mr->rkey), 0);
  ASSERT_EQ(a.Read(2, 100, 4, b.Address(0), b.mr->rkey ^ 0x55), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(a.Outcome(2), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(a.Text(100, 4), "good");
}

TEST_F(RemoteAccessTest, TheReceivesOfTheResponderAreFlushed) {
  ASSERT_EQ(b.Receive(7, 0, 64), 0);
  ExpectWriteRefused(b.Address(0), b.mr->rkey ^ 0x55);
  EXPECT_EQ(b.Outcome(7), IBV_WC_WR_FLUSH_ERR);
}

TEST_F(RemoteAccessTest, TheResponderIsToldByAnEvent) {
  ExpectWriteRefused(b.Address(0), b.mr->rkey ^ 0x55);
  if (Keeps(Promise::kRefusalIsAnAccessEvent)) {
    EXPECT_EQ(b.NextAsyncEvent(), IBV_EVENT_QP_ACCESS_ERR);
  } else {
    EXPECT_TRUE(b.HasNoAsyncEvent());
  }
}

// An operation that the access flags of the responder's queue pair forbid is an
// invalid request, not an access error.
class QueuePairRightsTest : public testing::Test {
 protected:
  void Connect(int access) {
    transport::Connect(a, b);
    ibv_qp_attr attributes = {};
    attributes.qp_access_flags = static_cast<unsigned int>(access);
    ASSERT_EQ(Verbs().modify_qp(b.qp, &attributes, IBV_QP_ACCESS_FLAGS), 0);
  }

  End a;
  End b;
};

TEST_F(QueuePairRightsTest, AWriteThatTheQueuePairDoesNotAllow) {
  Connect(IBV_ACCESS_REMOTE_READ);
  ASSERT_EQ(a.Read(1, 0, 8, b.Address(0), b.mr->rkey), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  ASSERT_EQ(a.Write(2, 0, 8, b.Address(0), b.mr->rkey), 0);
  EXPECT_EQ(a.Outcome(2), IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(QueuePairRightsTest, AReadThatTheQueuePairDoesNotAllow) {
  Connect(IBV_ACCESS_REMOTE_WRITE);
  ASSERT_EQ(a.Write(1, 0, 8, b.Address(0), b.mr->rkey), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  ASSERT_EQ(a.Read(2, 0, 8, b.Address(0), b.mr->rkey), 0);
  EXPECT_EQ(a.Outcome(2), IBV_WC_REM_INV_REQ_ERR);
}

// If the responder refuses a READ whose local buffer is bad too, the requester
// reports the refusal.
TEST_F(RemoteAccessTest, ARefusalComesBeforeALocalError) {
  ibv_sge entry = {a.Address(0), 8, a.mr->lkey ^ 0x55};
  ibv_send_wr request = {};
  request.wr_id = 1;
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_READ;
  request.wr.rdma = {b.Address(0), b.mr->rkey ^ 0x55};
  ASSERT_EQ(a.Post(request), 0);
  EXPECT_EQ(a.Outcome(1), Keeps(Promise::kRemoteErrorsComeFirst)
                              ? IBV_WC_REM_ACCESS_ERR
                              : IBV_WC_LOC_QP_OP_ERR);
}

TEST_F(RemoteAccessTest, ARefusedWriteWithImmediateEndsItsReceive) {
  ASSERT_EQ(b.Receive(7, 4096, 64), 0);
  ibv_sge entry = a.Entry(0, 8);
  ibv_send_wr request = {};
  request.wr_id = 1;
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.wr.rdma = {b.Address(0), b.mr->rkey ^ 0x55};
  ASSERT_EQ(a.Post(request), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(b.Outcome(7), Keeps(Promise::kARefusedWriteTakesItsReceive)
                              ? IBV_WC_LOC_ACCESS_ERR
                              : IBV_WC_REM_ACCESS_ERR);
}

}  // namespace
}  // namespace verbena::conformance
