// Regions that change.

#include "transport/soft/verbs/rereg_mr.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "transport/soft/test_end.h"
#include "transport/soft/verbs/memory_region.h"

namespace verbena::soft {
namespace {

constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND;

class ReregMrTest : public testing::Test {
 protected:
  ReregMrTest() {
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

TEST_F(ReregMrTest, ItsRightsChange) {
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

TEST_F(ReregMrTest, ItsPlaceChanges) {
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

TEST_F(ReregMrTest, ItsDomainChanges) {
  ibv_pd* other = b.verbs.alloc_pd(b.context);
  ibv_mr* region = RegMr(b.pd, b.memory, 64, kAll);
  ASSERT_EQ(ReregMr(region, IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0), 0);
  EXPECT_EQ(region->pd, other);
  EXPECT_EQ(b.verbs.dealloc_pd(other), EBUSY);
  EXPECT_EQ(WriteOutcome(b.Address(0), region->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(DeregMr(region), 0);
  EXPECT_EQ(b.verbs.dealloc_pd(other), 0);
}

TEST_F(ReregMrTest, AllThreeChangeAtOnce) {
  ibv_pd* other = b.verbs.alloc_pd(b.context);
  ibv_mr* region = RegMr(other, b.memory, 64, 0);
  ASSERT_EQ(ReregMr(region, IBV_REREG_MR_FLAGS_SUPPORTED, b.pd, b.memory + 512,
                    64, kAll),
            0);
  EXPECT_EQ(b.verbs.dealloc_pd(other), 0);
  EXPECT_EQ(WriteOutcome(b.Address(512), region->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(DeregMr(region), 0);
}

TEST_F(ReregMrTest, AChangeThatIsRefusedLeavesItAsItWas) {
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

TEST_F(ReregMrTest, WithABoundWindowItDoesNotChange) {
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
