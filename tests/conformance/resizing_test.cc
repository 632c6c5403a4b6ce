// Completion queues and shared receive queues of another size, and regions that
// become others.

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>

#include "tests/conformance/differences.h"
#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

EndOptions Small() {
  EndOptions options;
  options.completions = 4;
  options.shared_receives = 4;
  options.send_depth = 32;
  return options;
}

class CompletionQueueSizeTest : public testing::Test {
 protected:
  CompletionQueueSizeTest() { Connect(a, b); }

  // Completions [first, last) wait at a.
  void Write(uint64_t first, uint64_t last) {
    for (uint64_t i = first; i < last; ++i) {
      ASSERT_EQ(a.Write(i, 0, 8, b.Address(0), b.mr->rkey), 0);
    }
    // Two READs behind them: the second is answered when the first has ended,
    // and with that all before it.
    for (const uint64_t word : {last, ~last}) {
      b.Word(64) = word;
      ASSERT_EQ(a.Read(0, 64, 8, b.Address(64), b.mr->rkey, 0), 0);
      while (WordByNow(a, 64) != word) {
        a.RunProtocol();
        b.RunProtocol();
      }
    }
  }

  End a{Small()};
  End b;
};

TEST_F(CompletionQueueSizeTest, ALargerOneKeepsWhatWaitsAndItsOrder) {
  Write(0, 3);
  EXPECT_EQ(a.Wait().wr_id, 0u);
  EXPECT_EQ(a.Wait().wr_id, 1u);
  Write(3, 6);  // Round the end of a queue of four.
  ASSERT_EQ(Verbs().resize_cq(a.cq, 12), 0);
  EXPECT_GE(a.cq->cqe, 12);
  Write(6, 14);
  for (uint64_t i = 2; i < 14; ++i) EXPECT_EQ(a.Wait().wr_id, i);
  EXPECT_TRUE(a.HasNoAsyncEvent());
}

TEST_F(CompletionQueueSizeTest, ASmallerOneKeepsWhatWaits) {
  ASSERT_EQ(Verbs().resize_cq(a.cq, 40), 0);
  Write(0, 3);
  ASSERT_EQ(Verbs().resize_cq(a.cq, 3), 0);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(a.Wait().wr_id, i);
}

TEST_F(CompletionQueueSizeTest, ASmallerOneTakesNoMoreThanItSays) {
  ASSERT_EQ(Verbs().resize_cq(a.cq, 40), 0);
  ASSERT_EQ(Verbs().resize_cq(a.cq, 2), 0);
  const int depth = a.cq->cqe;
  ASSERT_LT(depth, static_cast<int>(a.Granted().max_send_wr));
  for (int i = 0; i <= depth; ++i) {
    ASSERT_EQ(a.Write(i, 0, 8, b.Address(0), b.mr->rkey), 0);
  }
  EXPECT_EQ(a.NextAsyncEvent(), IBV_EVENT_CQ_ERR);
}

TEST_F(CompletionQueueSizeTest, WhatWaitsMustFit) {
  ASSERT_EQ(Verbs().resize_cq(a.cq, 40), 0);
  const int before = a.cq->cqe;
  Write(0, 10);
  EXPECT_EQ(Verbs().resize_cq(a.cq, 2), EINVAL);
  EXPECT_EQ(a.cq->cqe, before);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(a.Wait().wr_id, i);
}

TEST_F(CompletionQueueSizeTest, NothingAndMoreThanTheDeviceHasAreRefused) {
  ibv_device_attr device = {};
  ASSERT_EQ(Verbs().query_device(a.context, &device), 0);
  EXPECT_EQ(Verbs().resize_cq(a.cq, 0), EINVAL);
  EXPECT_EQ(Verbs().resize_cq(a.cq, device.max_cqe + 1), EINVAL);
}

class SharedQueueSizeTest : public testing::Test {
 protected:
  SharedQueueSizeTest() { Connect(a, b); }

  int Resize(uint32_t max_wr, uint32_t limit = 0) {
    ibv_srq_attr attributes = {};
    attributes.max_wr = max_wr;
    attributes.srq_limit = limit;
    return Verbs().modify_srq(b.srq, &attributes,
                              IBV_SRQ_MAX_WR | (limit > 0 ? IBV_SRQ_LIMIT : 0));
  }
  ibv_srq_attr Attributes() {
    ibv_srq_attr attributes = {};
    EXPECT_EQ(Verbs().query_srq(b.srq, &attributes), 0);
    return attributes;
  }

  End a;
  End b{Small()};
};

TEST_F(SharedQueueSizeTest, ALargerOneKeepsItsReceivesAndTheirOrder) {
  const uint32_t before = Attributes().max_wr;
  for (uint64_t i = 0; i < before; ++i) ASSERT_EQ(b.Receive(i, 0, 8), 0);
  EXPECT_EQ(b.Receive(99, 0, 8), ENOMEM);
  ASSERT_EQ(Resize(before + 2), 0);
  EXPECT_GE(Attributes().max_wr, before + 2);
  ASSERT_EQ(b.Receive(before, 0, 8), 0);
  for (uint64_t i = 0; i <= before; ++i) {
    ASSERT_EQ(a.Send(i, 0, 4), 0);
    EXPECT_EQ(a.Outcome(i), IBV_WC_SUCCESS);
    EXPECT_EQ(b.Outcome(i), IBV_WC_SUCCESS);
  }
}

TEST_F(SharedQueueSizeTest, WhatIsPostedMustFitASmallerOne) {
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(b.Receive(i, 0, 8), 0);
  EXPECT_EQ(Resize(1), EINVAL);
  EXPECT_EQ(Resize(3), 0);
  const uint32_t now = Attributes().max_wr;
  EXPECT_GE(now, 3u);
  for (uint64_t i = 3; i < now; ++i) ASSERT_EQ(b.Receive(i, 0, 8), 0);
  EXPECT_EQ(b.Receive(99, 0, 8), ENOMEM);
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(a.Send(i, 0, 4), 0);
    EXPECT_EQ(b.Outcome(i), IBV_WC_SUCCESS);
  }
}

TEST_F(SharedQueueSizeTest, NothingAndMoreThanTheDeviceHasAreRefused) {
  ibv_device_attr device = {};
  ASSERT_EQ(Verbs().query_device(b.context, &device), 0);
  EXPECT_EQ(Resize(0), EINVAL);
  EXPECT_EQ(Resize(static_cast<uint32_t>(device.max_srq_wr) + 1), EINVAL);
}

TEST_F(SharedQueueSizeTest, ALimitIsHeldAgainstTheNewSize) {
  EXPECT_EQ(Resize(8, 9), EINVAL);
  ASSERT_EQ(Resize(8, 6), 0);
  const ibv_srq_attr now = Attributes();
  EXPECT_EQ(now.srq_limit, 6u);
  EXPECT_EQ(Resize(now.max_wr + 8, now.max_wr + 9), EINVAL);
  EXPECT_EQ(Attributes().max_wr, now.max_wr) << "all or nothing";
}

// Regions.

class ChangedRegionTest : public testing::Test {
 protected:
  ChangedRegionTest() {
    Connect(a, b);
    a.Fill(0, "text");
    region = Verbs().reg_mr(b.pd, b.memory, 64, kAllAccess);
    other = Verbs().alloc_pd(b.context);
    EXPECT_NE(region, nullptr);
  }
  ~ChangedRegionTest() override {
    EXPECT_EQ(Verbs().dereg_mr(region), 0);
    EXPECT_EQ(Verbs().dealloc_pd(other), 0);
  }

  // Whether the region has been changed. On a device that changes none it says
  // so and the region is as before.
  bool Change(int flags, ibv_pd* pd, void* addr, size_t length, int access) {
    const int result =
        Verbs().rereg_mr(region, flags, pd, addr, length, access);
    if (Keeps(Promise::kRegionsMayChange)) {
      EXPECT_EQ(result, 0) << "errno " << errno;
      return result == 0;
    }
    EXPECT_EQ(result, IBV_REREG_MR_ERR_CMD);
    EXPECT_EQ(errno, EOPNOTSUPP);
    EXPECT_EQ(WriteOutcome(0), IBV_WC_SUCCESS);
    return false;
  }
  ibv_wc_status WriteOutcome(size_t offset) {
    EXPECT_EQ(a.Write(1, 0, 4, b.Address(offset), region->rkey), 0);
    return a.Outcome(1);
  }

  End a;
  End b;
  ibv_mr* region = nullptr;
  ibv_pd* other = nullptr;
};

TEST_F(ChangedRegionTest, ItsRightsChange) {
  if (!Change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
              IBV_ACCESS_REMOTE_READ)) {
    return;
  }
  ASSERT_EQ(a.Read(2, 100, 4, b.Address(0), region->rkey), 0);
  EXPECT_EQ(a.Outcome(2), IBV_WC_SUCCESS);
  EXPECT_EQ(WriteOutcome(0), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(ChangedRegionTest, ItsPlaceChanges) {
  if (!Change(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, b.memory + 8192, 128,
              0)) {
    return;
  }
  EXPECT_EQ(region->addr, b.memory + 8192);
  EXPECT_EQ(region->length, 128u);
  EXPECT_EQ(WriteOutcome(8192 + 124), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Text(8192 + 124, 4), "text");
  EXPECT_EQ(WriteOutcome(0), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(ChangedRegionTest, ItsDomainChanges) {
  if (!Change(IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0)) return;
  EXPECT_EQ(region->pd, other);
  EXPECT_EQ(Verbs().dealloc_pd(other), EBUSY);
  EXPECT_EQ(WriteOutcome(0), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(ChangedRegionTest, AllThreeChangeAtOnce) {
  ASSERT_EQ(Verbs().dereg_mr(region), 0);
  region = Verbs().reg_mr(other, b.memory, 64, 0);
  ASSERT_NE(region, nullptr);
  const int result = Verbs().rereg_mr(region, IBV_REREG_MR_FLAGS_SUPPORTED,
                                      b.pd, b.memory + 512, 64, kAllAccess);
  EXPECT_EQ(result == 0, Keeps(Promise::kRegionsMayChange));
  EXPECT_EQ(WriteOutcome(512),
            result == 0 ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
}

TEST_F(ChangedRegionTest, AChangeThatIsRefusedLeavesItAsItWas) {
  int result = 0;
  const auto refused = [&](int flags, void* addr, size_t length, int access) {
    errno = 0;
    result = Verbs().rereg_mr(region, flags, nullptr, addr, length, access);
    EXPECT_NE(result, 0);
    return Keeps(Promise::kRegionsMayChange) ? errno : 0;
  };
  const int error = Keeps(Promise::kRegionsMayChange) ? EINVAL : 0;
  // The library finds these, and has not asked the device.
  EXPECT_EQ(refused(1 << 3, nullptr, 0, 0), error);
  EXPECT_EQ(result, IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(refused(IBV_REREG_MR_CHANGE_TRANSLATION, b.memory, 0, 0), error);
  EXPECT_EQ(result, IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(refused(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, 64, 0), error);
  EXPECT_EQ(result, IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(refused(IBV_REREG_MR_CHANGE_TRANSLATION, b.memory, 64, kAllAccess),
            error);
  EXPECT_EQ(result, IBV_REREG_MR_ERR_INPUT);
  // The others are the device's word.
  EXPECT_EQ(refused(0, nullptr, 0, 0), error);
  EXPECT_EQ(result, IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(refused(IBV_REREG_MR_CHANGE_PD, nullptr, 0, 0), error);
  EXPECT_EQ(
      refused(IBV_REREG_MR_CHANGE_ACCESS, nullptr, 0, IBV_ACCESS_REMOTE_WRITE),
      error);
  EXPECT_EQ(result, IBV_REREG_MR_ERR_CMD);
  auto* const nowhere = reinterpret_cast<void*>(4096);
  EXPECT_EQ(refused(IBV_REREG_MR_CHANGE_TRANSLATION, nowhere, 64, 0),
            error != 0 ? EFAULT : 0);
  EXPECT_EQ(result, IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(WriteOutcome(0), IBV_WC_SUCCESS);
}

TEST_F(ChangedRegionTest, WithABoundWindowItDoesNotChange) {
  ibv_mr* const bindable = Verbs().reg_mr(
      b.pd, b.memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  ibv_mw* const window = ibv_alloc_mw(b.pd, IBV_MW_TYPE_1);
  ASSERT_NE(window, nullptr);
  ibv_mw_bind bind = {1,
                      IBV_SEND_SIGNALED,
                      {bindable, b.Address(0), 64, IBV_ACCESS_REMOTE_READ}};
  ASSERT_EQ(ibv_bind_mw(b.qp, window, &bind), 0);
  EXPECT_EQ(b.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_NE(Verbs().rereg_mr(bindable, IBV_REREG_MR_CHANGE_ACCESS, nullptr,
                             nullptr, 0, kAllAccess),
            0);
  EXPECT_EQ(errno, Keeps(Promise::kRegionsMayChange) ? EBUSY : EOPNOTSUPP);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  EXPECT_EQ(Verbs().dereg_mr(bindable), 0);
}

TEST_F(ChangedRegionTest, ARegionMayBeginAtAnyAddress) {
  constexpr uint64_t kBegin = 0x1000;
  ibv_mr* const moved =
      Verbs().reg_mr_iova(b.pd, b.memory, 4096, kBegin, kAllAccess);
  ASSERT_NE(moved, nullptr) << "errno " << errno;
  ASSERT_EQ(a.Write(1, 0, 4, kBegin + 4092, moved->rkey), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Text(4092, 4), "text");
  ASSERT_EQ(a.Write(2, 0, 4, kBegin + 4093, moved->rkey), 0);
  EXPECT_EQ(a.Outcome(2), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(Verbs().dereg_mr(moved), 0);
}

}  // namespace
}  // namespace verbena::conformance
