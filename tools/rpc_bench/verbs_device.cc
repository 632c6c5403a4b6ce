#include "tools/rpc_bench/verbs_device.h"

#include <algorithm>
#include <cstdint>

#include "transport/verbs/error.h"

namespace verbena::bench {

using transport::CmId;
using transport::ErrnoStatus;
using transport::Provider;

absl::StatusOr<VerbsDevice> VerbsDevice::Of(const Provider& provider,
                                            const CmId& id) {
  ibv_device_attr attributes = {};
  int error = provider.verbs.query_device(id.context(), &attributes);
  if (error != 0) return ErrnoStatus("query_device", "", error);
  ibv_port_attr port = {};
  error = provider.verbs.query_port(id.context(), id.port_num(), &port);
  if (error != 0) return ErrnoStatus("query_port", "", error);
  VerbsDevice device;
  device.max_message_bytes = port.max_msg_sz;
  device.max_reads = static_cast<uint8_t>(std::clamp(
      std::min(attributes.max_qp_rd_atom, attributes.max_qp_init_rd_atom), 0,
      UINT8_MAX - 1));
  return device;
}

absl::StatusOr<VerbsPath> VerbsPath::Of(const Provider& provider,
                                        const CmId& id) {
  ibv_qp_attr attributes = {};
  ibv_qp_init_attr init = {};
  const int error = provider.verbs.query_qp(
      id.qp(), &attributes, IBV_QP_PATH_MTU | IBV_QP_AV | IBV_QP_PORT, &init);
  if (error != 0) return ErrnoStatus("query_qp", "", error);
  VerbsPath path;
  path.port = attributes.port_num;
  path.gid_index = attributes.ah_attr.grh.sgid_index;
  // IBV_MTU_256 is 1, and each that follows twice as much.
  path.mtu_bytes = attributes.path_mtu > 0 ? 128 << attributes.path_mtu : 0;
  return path;
}

}  // namespace verbena::bench
