// Regions that are named by other addresses, and regions that change.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>

#include "transport/soft/memory_region_verbs.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND;

class MemoryRegionTest : public testing::Test {
 protected:
  MemoryRegionTest() {
    ConnectByHand(a, b);
    a.Fill(0, "text");
  }

  ibv_wc_status WriteOutcome(uint64_t remote, uint32_t rkey) {
    EXPECT_EQ(a.Write(1, 0, 4, remote, rkey), 0);
    return a.Wait(&b).status;
  }

  TestEnd a;
  TestEnd b;
};

TEST_F(MemoryRegionTest, AnIovaNamesItForPeersAndForItsOwner) {
  constexpr uint64_t kIova = 0x7700'0000'0000;
  ibv_mr* region = RegMrIova(b.pd, b.memory + 100, 4096, kIova, kAll);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(region->addr, b.memory + 100);
  EXPECT_EQ(WriteOutcome(kIova + 8, region->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Text(108, 4), "text");
  ibv_sge entry = {kIova + 8, 4, region->lkey};
  ibv_send_wr request = {};
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(a.Receive(2, 200, 64), 0);
  ASSERT_EQ(b.Post(request), 0);
  EXPECT_EQ(a.Wait(&b).byte_len, 4u);
  EXPECT_EQ(a.Text(200, 4), "text");
  EXPECT_EQ(WriteOutcome(b.Address(100), region->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(DeregMr(region), 0);
}

TEST_F(MemoryRegionTest, AZeroBasedRegionIsNamedFromZero) {
  ibv_mr* region =
      RegMr(b.pd, b.memory + 128, 64, kAll | IBV_ACCESS_ZERO_BASED);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(WriteOutcome(60, region->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Text(188, 4), "text");
  EXPECT_EQ(WriteOutcome(61, region->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(DeregMr(region), 0);
}

TEST_F(MemoryRegionTest, AnIovaThatWrapsIsRefused) {
  EXPECT_EQ(RegMrIova(b.pd, b.memory, 4096, UINT64_MAX - 100, kAll), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(MemoryRegionTest, ItsRightsChange) {
  ibv_mr* region = RegMr(b.pd, b.memory, 4096, kAll);
  const uint32_t key = region->rkey;
  ASSERT_EQ(ReregMr(region, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                    IBV_ACCESS_REMOTE_READ),
            0);
  EXPECT_EQ(region->rkey, key);
  ASSERT_EQ(a.Read(1, 100, 4, b.Address(0), key), 0);
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_SUCCESS);
  EXPECT_EQ(WriteOutcome(b.Address(0), key), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(DeregMr(region), 0);
}

TEST_F(MemoryRegionTest, ItsPlaceChanges) {
  ibv_mr* region = RegMr(b.pd, b.memory, 64, kAll);
  ASSERT_EQ(ReregMr(region, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr,
                    b.memory + 1024, 128, 0),
            0);
  EXPECT_EQ(region->addr, b.memory + 1024);
  EXPECT_EQ(region->length, 128u);
  EXPECT_EQ(WriteOutcome(b.Address(1024 + 124), region->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Text(1024 + 124, 4), "text");
  EXPECT_EQ(WriteOutcome(b.Address(0), region->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(DeregMr(region), 0);
}

TEST_F(MemoryRegionTest, ItsDomainChanges) {
  ibv_pd* other = b.verbs.alloc_pd(b.context);
  ibv_mr* region = RegMr(b.pd, b.memory, 64, kAll);
  ASSERT_EQ(ReregMr(region, IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0), 0);
  EXPECT_EQ(region->pd, other);
  EXPECT_EQ(b.verbs.dealloc_pd(other), EBUSY);
  EXPECT_EQ(WriteOutcome(b.Address(0), region->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(DeregMr(region), 0);
  EXPECT_EQ(b.verbs.dealloc_pd(other), 0);
}

TEST_F(MemoryRegionTest, AllThreeChangeAtOnce) {
  ibv_pd* other = b.verbs.alloc_pd(b.context);
  ibv_mr* region = RegMr(other, b.memory, 64, 0);
  ASSERT_EQ(ReregMr(region, IBV_REREG_MR_FLAGS_SUPPORTED, b.pd, b.memory + 512,
                    64, kAll),
            0);
  EXPECT_EQ(b.verbs.dealloc_pd(other), 0);
  EXPECT_EQ(WriteOutcome(b.Address(512), region->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(DeregMr(region), 0);
}

TEST_F(MemoryRegionTest, AChangeThatIsRefusedLeavesItAsItWas) {
  ibv_mr* region = RegMr(b.pd, b.memory, 64, kAll);
  const auto refused = [&](int flags, void* addr, size_t length, int access) {
    errno = 0;
    EXPECT_EQ(ReregMr(region, flags, nullptr, addr, length, access),
              IBV_REREG_MR_ERR_INPUT);
    return errno;
  };
  EXPECT_EQ(refused(0, nullptr, 0, 0), EINVAL);
  EXPECT_EQ(refused(1 << 3, nullptr, 0, 0), EINVAL);
  EXPECT_EQ(refused(IBV_REREG_MR_CHANGE_PD, nullptr, 0, 0), EINVAL);
  EXPECT_EQ(
      refused(IBV_REREG_MR_CHANGE_ACCESS, nullptr, 0, IBV_ACCESS_REMOTE_WRITE),
      EINVAL);
  EXPECT_EQ(refused(IBV_REREG_MR_CHANGE_TRANSLATION, b.memory, 0, 0), EINVAL);
  EXPECT_EQ(refused(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, 64, 0), EFAULT);
  EXPECT_EQ(WriteOutcome(b.Address(0), region->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(DeregMr(region), 0);
}

TEST_F(MemoryRegionTest, WithABoundWindowItDoesNotChange) {
  ibv_mr* region = RegMr(b.pd, b.memory, 64, kAll);
  ibv_mw* window = ibv_alloc_mw(b.pd, IBV_MW_TYPE_1);
  ibv_mw_bind bind = {
      1, IBV_SEND_SIGNALED, {region, b.Address(0), 64, IBV_ACCESS_REMOTE_READ}};
  ASSERT_EQ(ibv_bind_mw(b.qp, window, &bind), 0);
  EXPECT_EQ(b.Wait(&a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(
      ReregMr(region, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAll),
      IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  EXPECT_EQ(DeregMr(region), 0);
}

}  // namespace
}  // namespace verbena::soft
