#include "transport/soft/verbs/device_attributes.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/soft/address/gid_table.h"
#include "transport/soft/address/port_states.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/device/context.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/memory/memory_table.h"
#include "transport/soft/memory/on_demand_memory.h"

namespace verbena::soft {
namespace {

constexpr char kGuid[9] = "\x02\0\0\0soft";  // Locally administered.

// The identifier of nobody, which Soft-RoCE has too.
constexpr uint32_t kVendorId = 0xffffff;

// Values of ibv_port_attr::phys_state.
constexpr uint8_t kDisabled = 3;
constexpr uint8_t kLinkUp = 5;

// Memory on demand serves all operations but atomics, which need the memory
// itself and not a copy.
ibv_odp_caps OnDemandCapabilities() {
  if (!CanAccessOnDemand()) return {};
  constexpr uint32_t kDatagram =
      IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
  constexpr uint32_t kUnreliable = kDatagram | IBV_ODP_SUPPORT_WRITE;
  return {IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
          {kUnreliable | IBV_ODP_SUPPORT_READ, kUnreliable, kDatagram}};
}

}  // namespace

int QueryDevice(ibv_context* /*context*/, ibv_device_attr* attributes) {
  *attributes = {};
  std::strcpy(attributes->fw_ver, "1");
  std::memcpy(&attributes->node_guid, kGuid, sizeof(attributes->node_guid));
  attributes->sys_image_guid = attributes->node_guid;
  attributes->vendor_id = kVendorId;
  attributes->hw_ver = 1;
  // A region of memory on demand may be as large as the address space.
  attributes->max_mr_size = UINT64_MAX;
  // All powers of two from 4 KiB on.
  attributes->page_size_cap = ~uint64_t{4095};
  attributes->max_qp = kQueuePairsMax;
  attributes->max_qp_wr = kQueueDepthMax;
  attributes->device_cap_flags =
      IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID |
      IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
      IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_SRQ_RESIZE |
      IBV_DEVICE_AUTO_PATH_MIG;
  attributes->max_mw = MemoryTable::kRegionsMax;  // Regions count in it too.
  attributes->max_sge = kGatherEntriesMax;
  attributes->max_sge_rd = kGatherEntriesMax;
  attributes->max_cq = kQueuePairsMax;
  attributes->max_cqe = kCompletionsMax;
  attributes->max_mr = MemoryTable::kRegionsMax;
  attributes->max_pd = kQueuePairsMax;
  attributes->max_qp_rd_atom = kReadsMax;
  attributes->max_res_rd_atom = kReadsMax * kQueuePairsMax;
  attributes->max_qp_init_rd_atom = kReadsMax;
  // The processor makes atomics atomic, so they are so to programs as well.
  attributes->atomic_cap = IBV_ATOMIC_GLOB;
  attributes->max_mcast_grp = kGroupsMax;
  attributes->max_mcast_qp_attach = kGroupMembersMax;
  attributes->max_total_mcast_qp_attach = kGroupsMax * kGroupMembersMax;
  attributes->max_ah = kAddressHandlesMax;
  attributes->max_srq = kQueuePairsMax;
  attributes->max_srq_wr = kQueueDepthMax;
  attributes->max_srq_sge = kGatherEntriesMax;
  attributes->max_pkeys = 1;
  attributes->phys_port_cnt = kPorts;
  return 0;
}

int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attributes) {
  if (!IsPort(port)) return EINVAL;
  const bool active =
      Context::From(context)->soft_device().port_states().IsActive(port);
  *attributes = {};
  attributes->state = active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attributes->max_mtu = IBV_MTU_4096;
  attributes->active_mtu = IBV_MTU_4096;
  attributes->gid_tbl_len = GidTable::kEntries;
  attributes->port_cap_flags = IBV_PORT_CM_SUP;
  attributes->max_msg_sz = kMessageBytesMax;
  attributes->pkey_tbl_len = 1;
  attributes->max_vl_num = 1;
  attributes->active_width = 2;   // 4x.
  attributes->active_speed = 32;  // EDR: of the order of a memory copy.
  attributes->phys_state = active ? kLinkUp : kDisabled;
  attributes->link_layer = IBV_LINK_LAYER_ETHERNET;
  attributes->flags = IBV_QPF_GRH_REQUIRED;  // There are no LIDs.
  return 0;
}

int QueryPkey(ibv_context* context, uint8_t port, int index, __be16* pkey) {
  ibv_port_attr attributes;
  if (QueryPort(context, port, &attributes) != 0 || index < 0 ||
      index >= attributes.pkey_tbl_len) {
    errno = EINVAL;
    return -1;
  }
  *pkey = 0xffff;  // The default partition, as its full member.
  return 0;
}

// A program that was built with older headers asks for fewer bytes, and gets
// the first ones.
int QueryDeviceEx(ibv_context* context, const ibv_query_device_ex_input* input,
                  ibv_device_attr_ex* attributes, size_t bytes) {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  ibv_device_attr_ex all = {};
  QueryDevice(context, &all.orig_attr);
  all.odp_caps = OnDemandCapabilities();
  all.device_cap_flags_ex = all.orig_attr.device_cap_flags;
  all.phys_port_cnt_ex = all.orig_attr.phys_port_cnt;
  std::memset(attributes, 0, bytes);
  std::memcpy(attributes, &all, std::min(bytes, sizeof(all)));
  return 0;
}

int QueryPortEx(ibv_context* context, uint8_t port, ibv_port_attr* attributes,
                size_t bytes) {
  ibv_port_attr all;
  if (const int error = QueryPort(context, port, &all); error != 0) {
    return error;
  }
  std::memset(attributes, 0, bytes);
  std::memcpy(attributes, &all, std::min(bytes, sizeof(all)));
  return 0;
}

}  // namespace verbena::soft
