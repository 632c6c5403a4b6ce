// The states of an RC queue pair: every transition, what it needs, and what it
// must not be given.

#include <gtest/gtest.h>

#include <cerrno>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "tests/conformance/differences.h"
#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

constexpr ibv_qp_state kStates[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
                                    IBV_QPS_RTS, IBV_QPS_ERR};
constexpr ibv_qp_state kSteps[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};

ibv_qp_state Before(ibv_qp_state state) {
  return static_cast<ibv_qp_state>(state - 1);
}

// A transition that changes the state needs nothing else than what MaskFor says
// if it is one of these.
bool IsLegal(ibv_qp_state from, ibv_qp_state to) {
  if (to == IBV_QPS_RESET) return true;
  if (to == IBV_QPS_ERR) {
    return from != IBV_QPS_RESET || Keeps(Promise::kResetMayGoToError);
  }
  return to == from + 1 || (from == IBV_QPS_INIT && to == IBV_QPS_INIT);
}

TEST(QueuePairStatesTest, EveryPairOfStatesIsLegalOrRefused) {
  for (const ibv_qp_state from : kStates) {
    for (const ibv_qp_state to : kStates) {
      SCOPED_TRACE(absl::StrCat("from ", from, " to ", to));
      End end;
      end.BringTo(from);
      const bool legal = IsLegal(from, to);
      EXPECT_EQ(end.To(to), legal ? 0 : EINVAL);
      EXPECT_EQ(end.State(), legal ? to : from);
    }
  }
}

TEST(QueuePairStatesTest, EveryRequiredAttributeIsRequired) {
  for (const ibv_qp_state to : kSteps) {
    End end;
    end.BringTo(Before(to));
    const int all = end.MaskFor(to) & ~IBV_QP_STATE;
    for (int bit = 1; bit <= all; bit <<= 1) {
      if ((all & bit) == 0) continue;
      SCOPED_TRACE(absl::StrCat("to ", to, " without ", absl::Hex(bit)));
      ibv_qp_attr attributes = end.AttributesFor(to);
      EXPECT_EQ(
          Verbs().modify_qp(end.qp, &attributes, IBV_QP_STATE | (all & ~bit)),
          EINVAL);
      EXPECT_EQ(end.State(), Before(to));
    }
  }
}

TEST(QueuePairStatesTest, AnAttributeOfAnotherTransitionIsRefused) {
  for (const ibv_qp_state to : kSteps) {
    End end;
    end.BringTo(Before(to));
    for (const int bit : {int{IBV_QP_QKEY}, IBV_QP_DEST_QPN | IBV_QP_TIMEOUT}) {
      SCOPED_TRACE(absl::StrCat("to ", to, " with ", absl::Hex(bit)));
      ibv_qp_attr attributes = end.AttributesFor(to);
      EXPECT_EQ(Verbs().modify_qp(end.qp, &attributes, end.MaskFor(to) | bit),
                EINVAL);
      EXPECT_EQ(end.State(), Before(to));
    }
  }
}

TEST(QueuePairStatesTest, ErrorAndResetTakeNothingElse) {
  for (const ibv_qp_state to : {IBV_QPS_ERR, IBV_QPS_RESET}) {
    End end;
    end.BringTo(IBV_QPS_RTS);
    ibv_qp_attr attributes = end.AttributesFor(to);
    EXPECT_EQ(Verbs().modify_qp(end.qp, &attributes,
                                IBV_QP_STATE | IBV_QP_ACCESS_FLAGS),
              EINVAL);
    EXPECT_EQ(end.State(), IBV_QPS_RTS);
  }
}

// The result of the step to `to` with attributes that `change` has changed.
int StepWith(End& end, ibv_qp_state to,
             absl::FunctionRef<void(ibv_qp_attr&)> change) {
  end.BringTo(Before(to));
  ibv_qp_attr attributes = end.AttributesFor(to);
  change(attributes);
  return Verbs().modify_qp(end.qp, &attributes, end.MaskFor(to));
}

TEST(QueuePairStatesTest, APortThatTheDeviceHasNotIsRefused) {
  for (const uint8_t port : {0, 200}) {
    End end;
    EXPECT_EQ(StepWith(end, IBV_QPS_INIT,
                       [&](ibv_qp_attr& init) { init.port_num = port; }),
              EINVAL);
    EXPECT_EQ(end.State(), IBV_QPS_RESET);
  }
}

// Programs pass the rights of their regions.
TEST(QueuePairStatesTest, RightsThatAreNotOfQueuePairsAreIgnored) {
  End end;
  const unsigned int all = kAllAccess | IBV_ACCESS_ON_DEMAND |
                           IBV_ACCESS_MW_BIND | IBV_ACCESS_RELAXED_ORDERING;
  EXPECT_EQ(StepWith(end, IBV_QPS_INIT,
                     [&](ibv_qp_attr& init) { init.qp_access_flags = all; }),
            0);
  ibv_qp_attr got = {};
  ibv_qp_init_attr init = {};
  ASSERT_EQ(Verbs().query_qp(end.qp, &got, IBV_QP_ACCESS_FLAGS, &init), 0);
  EXPECT_EQ(got.qp_access_flags & kAllAccess, unsigned{kAllAccess});
}

TEST(QueuePairStatesTest, APartitionKeyThatTheDeviceHasNotIsRefused) {
  End end;
  ibv_device_attr device = {};
  ASSERT_EQ(Verbs().query_device(end.context, &device), 0);
  EXPECT_EQ(
      StepWith(end, IBV_QPS_INIT,
               [&](ibv_qp_attr& init) { init.pkey_index = device.max_pkeys; }),
      Keeps(Promise::kIndexOfAPartitionKeyIsChecked) ? EINVAL : 0);
}

TEST(QueuePairStatesTest, ASourceWithoutAnAddressIsRefused) {
  End end;
  ibv_port_attr port = {};
  ASSERT_EQ(Verbs().query_port(end.context, kPort, &port), 0);
  const auto last = static_cast<uint8_t>(port.gid_tbl_len - 1);
  EXPECT_NE(
      StepWith(end, IBV_QPS_RTR,
               [&](ibv_qp_attr& rtr) { rtr.ah_attr.grh.sgid_index = last; }),
      0);
  EXPECT_EQ(end.State(), IBV_QPS_INIT);
}

TEST(QueuePairStatesTest, MoreReadsThanTheDeviceTakesAreRefused) {
  End responder;
  EXPECT_EQ(StepWith(responder, IBV_QPS_RTR,
                     [](ibv_qp_attr& rtr) { rtr.max_dest_rd_atomic = 255; }),
            Keeps(Promise::kReadsAcceptedAreChecked) ? EINVAL : 0);
  End requester;
  EXPECT_EQ(StepWith(requester, IBV_QPS_RTS,
                     [](ibv_qp_attr& rts) { rts.max_rd_atomic = 255; }),
            EINVAL);
  EXPECT_EQ(requester.State(), IBV_QPS_RTR);
}

TEST(QueuePairStatesTest, AStateThatItIsNotInIsRefused) {
  End end;
  end.BringTo(IBV_QPS_RTR);
  ibv_qp_attr attributes = end.AttributesFor(IBV_QPS_RTS);
  const int mask = end.MaskFor(IBV_QPS_RTS) | IBV_QP_CUR_STATE;
  attributes.cur_qp_state = IBV_QPS_INIT;
  EXPECT_EQ(Verbs().modify_qp(end.qp, &attributes, mask), EINVAL);
  attributes.cur_qp_state = IBV_QPS_RTR;
  EXPECT_EQ(Verbs().modify_qp(end.qp, &attributes, mask), 0);
}

TEST(QueuePairStatesTest, QueryReportsWhatWasSet) {
  End end;
  end.BringTo(IBV_QPS_RTS);
  ibv_qp_attr got = {};
  ibv_qp_init_attr init = {};
  ASSERT_EQ(Verbs().query_qp(end.qp, &got,
                             IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT |
                                 IBV_QP_CAP | IBV_QP_AV,
                             &init),
            0);
  EXPECT_EQ(got.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(got.cur_qp_state, Keeps(Promise::kQueryReportsTheCurrentState)
                                  ? IBV_QPS_RTS
                                  : IBV_QPS_RESET);
  EXPECT_EQ(got.path_mtu, end.options.mtu);
  EXPECT_EQ(got.dest_qp_num, end.qp->qp_num);
  EXPECT_EQ(got.timeout, end.options.timeout);
  EXPECT_EQ(got.retry_cnt, end.options.retry_count);
  EXPECT_EQ(got.rnr_retry, end.options.rnr_retry);
  EXPECT_EQ(got.min_rnr_timer, end.options.min_rnr_timer);
  EXPECT_EQ(got.max_rd_atomic, end.options.reads_max);
  EXPECT_EQ(got.max_dest_rd_atomic, end.options.reads_accepted);
  EXPECT_EQ(got.port_num, kPort);
  EXPECT_EQ(got.ah_attr.grh.sgid_index, end.gid.index);
  EXPECT_GE(got.cap.max_send_wr, end.options.send_depth);
  EXPECT_EQ(init.qp_type, IBV_QPT_RC);
  EXPECT_EQ(init.send_cq, end.cq);
  EXPECT_EQ(init.recv_cq, end.cq);
}

TEST(QueuePairStatesTest, AQueuePairMayBeResetAndUsedAgain) {
  End a;
  End b;
  Connect(a, b);
  for (const bool after_an_error : {false, true}) {
    if (after_an_error) {
      ASSERT_EQ(a.Write(1, 0, 8, b.Address(0), b.mr->rkey ^ 0x55), 0);
      EXPECT_EQ(a.Outcome(1), IBV_WC_REM_ACCESS_ERR);
    } else {
      ASSERT_EQ(a.Receive(1, 0, 64), 0);
    }
    for (End* end : {&a, &b}) ASSERT_EQ(end->To(IBV_QPS_RESET), 0);
    EXPECT_TRUE(a.StaysQuiet());  // Requests vanished silently.
    Connect(a, b);
    ASSERT_EQ(b.Receive(2, 0, 64), 0);
    ASSERT_EQ(a.Send(3, 0, 8), 0);
    EXPECT_EQ(a.Outcome(3), IBV_WC_SUCCESS);
    EXPECT_EQ(b.Outcome(2), IBV_WC_SUCCESS);
  }
}

TEST(QueuePairStatesTest, AConnectedQueuePairMayGoAtAnyTime) {
  for (int i = 0; i < 20; ++i) {
    End a;
    End b;
    Connect(a, b);
    ASSERT_EQ(b.Receive(1, 0, 64), 0);
    ASSERT_EQ(a.Send(1, 0, 64), 0);
    if (i % 2 == 0) a.RunProtocol();
  }
}

TEST(QueuePairStatesTest, ANumberHasTwentyFourBits) {
  End end;
  EXPECT_EQ(StepWith(end, IBV_QPS_RTR,
                     [](ibv_qp_attr& rtr) { rtr.dest_qp_num = 1 << 24; }),
            Keeps(Promise::kNumberOfAQueuePairIsChecked) ? EINVAL : 0);
}

TEST(QueuePairStatesTest, ResettingTakesItsCompletionsOutOfTheQueue) {
  End a;
  End b;
  Connect(a, b);
  ASSERT_EQ(b.Receive(2, 0, 64), 0);
  ASSERT_EQ(a.Send(3, 0, 8), 0);
  EXPECT_EQ(a.Outcome(3), IBV_WC_SUCCESS);
  ASSERT_EQ(b.To(IBV_QPS_RESET), 0);
  ibv_wc completion = {};
  EXPECT_EQ(b.PollOnce(completion),
            !Keeps(Promise::kCompletionsVanishWithAReset));
}

TEST(QueuePairStatesTest, AQueuePairBeyondTheLimitsIsRefused) {
  End end;
  ibv_device_attr device = {};
  ASSERT_EQ(Verbs().query_device(end.context, &device), 0);
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = end.cq;
  attributes.qp_type = IBV_QPT_RC;
  const auto create = [&](ibv_qp_cap cap) {
    attributes.cap = cap;
    return Verbs().create_qp(end.pd, &attributes);
  };
  const auto granted = [&](ibv_qp_cap cap) {
    ibv_qp* const qp = create(cap);
    return qp != nullptr && Verbs().destroy_qp(qp) == 0;
  };
  const uint32_t depth = static_cast<uint32_t>(device.max_qp_wr);
  const uint32_t entries = static_cast<uint32_t>(device.max_sge);
  EXPECT_TRUE(granted({depth, depth, 1, 1, 0}));
  EXPECT_TRUE(granted({1, 1, entries, entries, 0}));
  EXPECT_TRUE(granted({0, 0, 0, 0, 0}));
  EXPECT_EQ(create({depth + 1, 1, 1, 1, 0}), nullptr);
  EXPECT_EQ(create({1, depth + 1, 1, 1, 0}), nullptr);
  EXPECT_EQ(create({1, 1, entries + 1, 1, 0}), nullptr);
  EXPECT_EQ(create({1, 1, 1, entries + 1, 0}), nullptr);
  EXPECT_EQ(create({1, 1, 1, 1, 1u << 30}), nullptr);
}

TEST(QueuePairStatesTest, NumbersAreNotGivenTwice) {
  End a;
  End b;
  EXPECT_NE(a.qp->qp_num, b.qp->qp_num);
  EXPECT_GT(a.qp->qp_num, 1u);  // 0 and 1 are the management queue pairs.
  EXPECT_LT(a.qp->qp_num, 1u << 24);
}

}  // namespace
}  // namespace verbena::conformance
