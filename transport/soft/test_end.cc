#include "transport/soft/test_end.h"

#include "transport/base/check.h"
#include "transport/soft/full/full_verbs.h"

namespace verbena::soft {
namespace {

ibv_context* OpenDevice() {
  const transport::VerbsOps verbs = FullVerbsOps();
  ibv_device** const devices = verbs.get_device_list(nullptr);
  ibv_context* const context = verbs.open_device(devices[0]);
  verbs.free_device_list(devices);
  CHECK(context != nullptr);
  return context;
}

// The GID at which others reach this host: entry 0 of the table.
transport::TestGid FirstGid(ibv_context* context) {
  transport::TestGid first;
  CHECK_EQ(FullVerbsOps().query_gid(context, 1, 0, &first.gid), 0);
  return first;
}

TestEndOptions ForDatagrams(TestEndOptions options) {
  options.type = IBV_QPT_UD;
  return options;
}

}  // namespace

TestEndOptions::TestEndOptions() {
  inline_bytes = 256;
  completions = 256;
  mtu = IBV_MTU_4096;
  min_rnr_timer = 1;  // 10 us.
  timeout = 8;        // About 1 ms.
  retry_count = 0;
  reads_max = reads_accepted = 16;
}

TestEnd::TestEnd(const TestEndOptions& wanted)
    : TestEnd(OpenDevice(), wanted) {}

TestEnd::TestEnd(ibv_context* opened, const TestEndOptions& wanted)
    : transport::TestEnd(FullVerbsOps(), opened, FirstGid(opened), wanted) {}

int TestEnd::ToReadyToReceive(uint32_t number) {
  peer_number = number;
  return To(IBV_QPS_RTR);
}

void TestEnd::Connect(uint32_t number) {
  if (State() == IBV_QPS_RESET) CHECK_EQ(To(IBV_QPS_INIT), 0);
  CHECK_EQ(ToReadyToReceive(number), 0);
  CHECK_EQ(To(IBV_QPS_RTS), 0);
}

int TestEnd::Rearm(uint8_t port, uint8_t timeout) {
  ibv_qp_attr attributes = {};
  attributes.alt_port_num = port;
  attributes.alt_timeout = timeout;
  attributes.alt_ah_attr = Path(gid.gid);
  attributes.alt_ah_attr.port_num = port;
  attributes.path_mig_state = IBV_MIG_REARM;
  return verbs.modify_qp(qp, &attributes,
                         IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
}

int TestEnd::SetMigrationState(ibv_mig_state state) {
  ibv_qp_attr attributes = {};
  attributes.path_mig_state = state;
  return verbs.modify_qp(qp, &attributes, IBV_QP_PATH_MIG_STATE);
}

ibv_qp_attr TestEnd::QueryPaths() const {
  ibv_qp_attr attributes = {};
  ibv_qp_init_attr init_attributes = {};
  CHECK_EQ(
      verbs.query_qp(qp, &attributes, IBV_QP_PATH_MIG_STATE | IBV_QP_ALT_PATH,
                     &init_attributes),
      0);
  return attributes;
}

DatagramTestEnd::DatagramTestEnd(TestEndOptions wanted)
    : TestEnd(ForDatagrams(wanted)) {
  BringTo(IBV_QPS_RTS);
}

void ConnectManually(TestEnd& a, TestEnd& b) {
  a.Connect(b.qp->qp_num);
  b.Connect(a.qp->qp_num);
}

}  // namespace verbena::soft
