// Verbs that return an errno value set errno too: many programs print that.

#include <gtest/gtest.h>

#include <cerrno>

#include "absl/functional/function_ref.h"
#include "tests/conformance/differences.h"
#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

// Calls `verb`, which must return `error` and set errno to it.
void ExpectBoth(int error, absl::FunctionRef<int()> verb) {
  errno = 0;
  EXPECT_EQ(verb(), error);
  EXPECT_EQ(errno, error);
}

class ErrnoTest : public testing::Test {
 protected:
  EndOptions WithEverything() {
    EndOptions options;
    options.with_channel = true;
    options.shared_receives = 4;
    return options;
  }

  End end{WithEverything()};
};

TEST_F(ErrnoTest, WhatIsInUseIsBusy) {
  ExpectBoth(EBUSY, [&] { return Verbs().dealloc_pd(end.pd); });
  ExpectBoth(EBUSY, [&] { return Verbs().destroy_cq(end.cq); });
  ExpectBoth(EBUSY, [&] { return Verbs().destroy_srq(end.srq); });
}

TEST_F(ErrnoTest, AChannelInUseIsBusy) {
  errno = 0;
  EXPECT_EQ(Verbs().destroy_comp_channel(end.channel), EBUSY);
  EXPECT_EQ(errno, Keeps(Promise::kABusyChannelSetsErrno) ? EBUSY : 0);
}

TEST_F(ErrnoTest, WhatIsNotThereIsInvalid) {
  ibv_port_attr port = {};
  ExpectBoth(EINVAL, [&] { return Verbs().query_port(end.context, 0, &port); });
  const ibv_gid nobody = {};
  ExpectBoth(EINVAL, [&] { return Verbs().detach_mcast(end.qp, &nobody, 0); });
}

TEST_F(ErrnoTest, AStepThatIsNotLegalIsInvalid) {
  ExpectBoth(EINVAL, [&] { return end.To(IBV_QPS_RTS); });
  ExpectBoth(EINVAL, [&] { return Verbs().resize_cq(end.cq, 0); });
}

TEST_F(ErrnoTest, AMinusOneComesWithItsReason) {
  __be16 key = 0;
  errno = 0;
  EXPECT_EQ(Verbs().query_pkey(end.context, kPort, 30'000, &key), -1);
  EXPECT_NE(errno, 0);
  ibv_gid gid = {};
  errno = 0;
  EXPECT_EQ(Verbs().query_gid(end.context, kPort, 30'000, &gid), -1);
  EXPECT_NE(errno, 0);
}

TEST_F(ErrnoTest, ARequestThatIsRefusedSaysWhy) {
  errno = 0;
  EXPECT_EQ(end.Send(1, 0, 8), EINVAL) << "in RESET";
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace verbena::conformance
