#include "transport/soft/datagram/datagram_test_end.h"

#include <cerrno>

#include "transport/base/check.h"
#include "transport/soft/verbs/datagram_verbs.h"

namespace verbena::soft {

DatagramTestEnd::DatagramTestEnd(const TestEndOptions& wanted)
    : TestEnd(wanted) {
  CHECK_EQ(verbs.destroy_qp(qp), 0);
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = cq;
  attributes.srq = srq;
  attributes.cap = {options.send_depth, options.receive_depth, options.entries,
                    options.entries, options.inline_bytes};
  attributes.qp_type = IBV_QPT_UD;
  attributes.sq_sig_all = options.signal_all ? 1 : 0;
  qp = verbs.create_qp(pd, &attributes);
  CHECK(qp != nullptr) << "errno " << errno;
}

DatagramTestEnd::~DatagramTestEnd() {
  for (ibv_ah* ah : handles_) CHECK_EQ(DestroyAh(ah), 0);
}

int DatagramTestEnd::ToInit(uint32_t qkey) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  attributes.qkey = qkey;
  return verbs.modify_qp(
      qp, &attributes,
      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
}

int DatagramTestEnd::ToReadyToReceive() {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  return verbs.modify_qp(qp, &attributes, IBV_QP_STATE);
}

int DatagramTestEnd::ToReadyToSend() {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  return verbs.modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

void DatagramTestEnd::Start(uint32_t qkey) {
  CHECK_EQ(ToInit(qkey), 0);
  CHECK_EQ(ToReadyToReceive(), 0);
  CHECK_EQ(ToReadyToSend(), 0);
}

ibv_gid DatagramTestEnd::Gid() const {
  ibv_gid gid;
  CHECK_EQ(verbs.query_gid(context, 1, 0, &gid), 0);
  return gid;
}

ibv_ah_attr DatagramTestEnd::Path(const ibv_gid& gid, uint8_t index) {
  ibv_ah_attr path = {};
  path.is_global = 1;
  path.port_num = 1;
  path.grh.dgid = gid;
  path.grh.sgid_index = index;
  path.grh.hop_limit = 1;
  return path;
}

ibv_ah* DatagramTestEnd::To(const ibv_gid& gid) {
  ibv_ah_attr path = Path(gid);
  ibv_ah* ah = CreateAh(pd, &path);
  CHECK(ah != nullptr) << "errno " << errno;
  handles_.push_back(ah);
  return ah;
}

int DatagramTestEnd::SendTo(const DatagramTestEnd& peer, uint64_t wr_id,
                            size_t offset, size_t length, unsigned int flags) {
  return SendDatagram({.ah = To(peer.Gid()),
                       .number = peer.qp->qp_num,
                       .wr_id = wr_id,
                       .offset = offset,
                       .length = length,
                       .flags = flags});
}

}  // namespace verbena::soft
