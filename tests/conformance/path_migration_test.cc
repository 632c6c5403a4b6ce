// Alternate paths: what may be loaded, and how a connection changes to one.

#include <gtest/gtest.h>

#include <cerrno>

#include "absl/functional/function_ref.h"
#include "tests/conformance/differences.h"
#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

constexpr uint8_t kNoPort = 200;

// A path by the last port of the device, to where the first path leads.
ibv_qp_attr AlternateOf(const End& end) {
  ibv_device_attr device = {};
  EXPECT_EQ(Verbs().query_device(end.context, &device), 0);
  ibv_qp_attr attributes = end.AttributesFor(IBV_QPS_RTR);
  attributes.alt_ah_attr = attributes.ah_attr;
  attributes.alt_port_num = device.phys_port_cnt;
  attributes.alt_ah_attr.port_num = device.phys_port_cnt;
  attributes.alt_timeout = 10;
  return attributes;
}

// Returns the result of modify_qp for AlternateOf(end), changed by `change`.
int Load(End& end, absl::FunctionRef<void(ibv_qp_attr&)> change) {
  ibv_qp_attr attributes = AlternateOf(end);
  change(attributes);
  return Verbs().modify_qp(end.qp, &attributes, IBV_QP_ALT_PATH);
}

int SetState(End& end, ibv_mig_state state) {
  ibv_qp_attr attributes = {};
  attributes.path_mig_state = state;
  return Verbs().modify_qp(end.qp, &attributes, IBV_QP_PATH_MIG_STATE);
}

int Rearm(End& end) {
  ibv_qp_attr attributes = AlternateOf(end);
  attributes.path_mig_state = IBV_MIG_REARM;
  return Verbs().modify_qp(end.qp, &attributes,
                           IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
}

ibv_qp_attr Query(const End& end) {
  ibv_qp_attr got = {};
  ibv_qp_init_attr init = {};
  EXPECT_EQ(Verbs().query_qp(end.qp, &got,
                             IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE, &init),
            0);
  return got;
}

void ExpectArrives(End& from, End& to) {
  ASSERT_EQ(to.Receive(1, 0, 64), 0);
  ASSERT_EQ(from.Send(2, 0, 8), 0);
  EXPECT_EQ(from.Outcome(2), IBV_WC_SUCCESS);
  EXPECT_EQ(to.Outcome(1), IBV_WC_SUCCESS);
}

TEST(PathMigrationTest, AQueuePairBeginsMigrated) {
  End end;
  end.BringTo(IBV_QPS_RTS);
  EXPECT_EQ(Query(end).path_mig_state, IBV_MIG_MIGRATED);
}

TEST(PathMigrationTest, ThePathIsOfTheQueuePairsPort) {
  End end;
  end.BringTo(IBV_QPS_INIT);
  ibv_qp_attr attributes = end.AttributesFor(IBV_QPS_RTR);
  attributes.ah_attr.port_num = kNoPort;
  EXPECT_EQ(Verbs().modify_qp(end.qp, &attributes, end.MaskFor(IBV_QPS_RTR)),
            EINVAL);
  EXPECT_EQ(end.State(), IBV_QPS_INIT);
  End peer;
  ASSERT_EQ(end.To(IBV_QPS_RESET), 0);
  Connect(end, peer);
  ExpectArrives(end, peer);
}

TEST(PathMigrationTest, AnAlternatePathIsReported) {
  End end;
  end.BringTo(IBV_QPS_RTS);
  const bool taken = Keeps(Promise::kAlternatePathsAreTaken);
  EXPECT_EQ(Load(end, [](ibv_qp_attr&) {}), taken ? 0 : EINVAL);
  const ibv_qp_attr got = Query(end);
  EXPECT_EQ(got.alt_port_num, taken ? AlternateOf(end).alt_port_num : 0);
  EXPECT_EQ(got.alt_timeout, taken ? 10 : 0);
  EXPECT_EQ(got.alt_ah_attr.grh.sgid_index, taken ? end.gid.index : 0);
}

TEST(PathMigrationTest, AnAlternatePathIsOfAPortThatIsThere) {
  End end;
  end.BringTo(IBV_QPS_RTS);
  EXPECT_EQ(Load(end,
                 [](ibv_qp_attr& path) {
                   path.alt_port_num = path.alt_ah_attr.port_num = kNoPort;
                 }),
            EINVAL);
  EXPECT_EQ(Load(end, [](ibv_qp_attr& path) { path.alt_port_num = 0; }),
            EINVAL);
  EXPECT_EQ(
      Load(end, [](ibv_qp_attr& path) { path.alt_ah_attr.port_num = kNoPort; }),
      EINVAL)
      << "not what the other port number says";
}

TEST(PathMigrationTest, AnAlternatePathHasALegalTimeoutAndAddress) {
  End end;
  end.BringTo(IBV_QPS_RTS);
  EXPECT_EQ(Load(end, [](ibv_qp_attr& path) { path.alt_timeout = 32; }),
            EINVAL);
  EXPECT_EQ(Load(end, [](ibv_qp_attr& path) { path.alt_pkey_index = 1; }),
            EINVAL);
  EXPECT_EQ(
      Load(end, [](ibv_qp_attr& path) { path.alt_ah_attr.is_global = 0; }),
      EINVAL)
      << "there are no LIDs";
}

TEST(PathMigrationTest, OnlyWhatTheSpecificationAllowsCanBeAskedFor) {
  End end;
  end.BringTo(IBV_QPS_RTS);
  const int refused = Keeps(Promise::kMigrationStateIsChecked) ? EINVAL : 0;
  EXPECT_EQ(SetState(end, IBV_MIG_ARMED), refused);
  EXPECT_EQ(SetState(end, IBV_MIG_REARM), refused) << "nothing is loaded";
  EXPECT_EQ(SetState(end, IBV_MIG_MIGRATED), 0);
  if (!Keeps(Promise::kAlternatePathsAreTaken)) return;
  EXPECT_EQ(Rearm(end), 0);
  EXPECT_EQ(Query(end).path_mig_state, IBV_MIG_REARM) << "the peer has not";
  EXPECT_EQ(SetState(end, IBV_MIG_MIGRATED), EINVAL) << "it is not armed yet";
}

TEST(PathMigrationTest, TheDeviceSaysThatPathsMigrate) {
  End end;
  ibv_device_attr device = {};
  ASSERT_EQ(Verbs().query_device(end.context, &device), 0);
  EXPECT_NE(device.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG, 0u);
}

TEST(PathMigrationTest, BothSidesMigrateWhenTheUserOfOneSaysSo) {
  End a;
  End b;
  Connect(a, b);
  const bool migrates = Keeps(Promise::kAlternatePathsAreTaken);
  for (End* end : {&a, &b}) EXPECT_EQ(Rearm(*end), migrates ? 0 : EINVAL);
  ExpectArrives(a, b);
  ExpectArrives(b, a);
  EXPECT_EQ(Query(a).path_mig_state,
            migrates ? IBV_MIG_ARMED : IBV_MIG_MIGRATED);
  ASSERT_EQ(SetState(a, IBV_MIG_MIGRATED), 0);
  ExpectArrives(a, b);
  for (End* end : {&a, &b}) {
    if (migrates) {
      EXPECT_EQ(end->NextAsyncEvent(), IBV_EVENT_PATH_MIG);
    }
    EXPECT_TRUE(end->HasNoAsyncEvent());
    const ibv_qp_attr now = Query(*end);
    EXPECT_EQ(now.path_mig_state, IBV_MIG_MIGRATED);
    EXPECT_EQ(now.port_num, AlternateOf(*end).alt_port_num);
    EXPECT_EQ(now.timeout, migrates ? 10 : end->options.timeout);
  }
}

}  // namespace
}  // namespace verbena::conformance
