#include "transport/soft/connected/path_test_end.h"

#include <poll.h>

#include "transport/base/check.h"
#include "transport/soft/device/soft_device.h"

namespace verbena::soft {
namespace {

TestEndOptions OptionsFor(uint8_t port, uint8_t timeout, ibv_qp_type type,
                          bool with_channel) {
  TestEndOptions options;
  options.port = port;
  options.timeout = timeout;
  options.type = type;
  options.with_channel = with_channel;
  return options;
}

}  // namespace

PathTestEnd::PathTestEnd(uint8_t port, uint8_t timeout, ibv_qp_type type,
                         bool with_channel)
    : TestEnd(OptionsFor(port, timeout, type, with_channel)) {}

ibv_qp_attr PathTestEnd::Alternate(uint8_t port, uint8_t timeout) {
  ibv_qp_attr attributes = {};
  attributes.alt_port_num = port;
  attributes.alt_timeout = timeout;
  attributes.alt_ah_attr.port_num = port;
  attributes.alt_ah_attr.is_global = 1;
  attributes.alt_ah_attr.grh.dgid = SoftDevice::Get().gids().At(0)->gid;
  attributes.alt_ah_attr.grh.hop_limit = 1;
  return attributes;
}

int PathTestEnd::Rearm(uint8_t port, uint8_t timeout) {
  ibv_qp_attr attributes = Alternate(port, timeout);
  attributes.path_mig_state = IBV_MIG_REARM;
  return verbs.modify_qp(qp, &attributes,
                         IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
}

int PathTestEnd::SetMigrationState(ibv_mig_state state) {
  ibv_qp_attr attributes = {};
  attributes.path_mig_state = state;
  return verbs.modify_qp(qp, &attributes, IBV_QP_PATH_MIG_STATE);
}

ibv_qp_attr PathTestEnd::Query() const {
  ibv_qp_attr attributes = {};
  ibv_qp_init_attr init_attributes = {};
  CHECK_EQ(
      verbs.query_qp(qp, &attributes, IBV_QP_PATH_MIG_STATE | IBV_QP_ALT_PATH,
                     &init_attributes),
      0);
  return attributes;
}

ibv_async_event PathTestEnd::WaitForEvent() {
  pollfd wait = {context->async_fd, POLLIN, 0};
  CHECK_EQ(poll(&wait, 1, 10000), 1) << "no event within ten seconds";
  ibv_async_event event = {};
  CHECK_EQ(verbs.get_async_event(context, &event), 0);
  verbs.ack_async_event(&event);
  return event;
}

}  // namespace verbena::soft
