#include "tests/conformance/datagram_end.h"

#include <cerrno>
#include <utility>

#include "transport/base/check.h"

namespace verbena::conformance {
namespace {

EndOptions OfDatagrams(EndOptions options) {
  options.type = IBV_QPT_UD;
  return options;
}

}  // namespace

DatagramEnd::DatagramEnd(EndOptions wanted)
    : End(OfDatagrams(std::move(wanted))) {
  BringTo(IBV_QPS_RTS);
}

DatagramEnd::~DatagramEnd() {
  for (ibv_ah* ah : handles_) CHECK_EQ(Verbs().destroy_ah(ah), 0);
}

ibv_ah_attr DatagramEnd::Path(const ibv_gid& to) const {
  ibv_ah_attr path = {};
  path.is_global = 1;
  path.port_num = kPort;
  path.grh.dgid = to;
  path.grh.sgid_index = gid.index;
  path.grh.hop_limit = 64;
  return path;
}

ibv_ah* DatagramEnd::Handle(const ibv_gid& to) {
  ibv_ah_attr path = Path(to);
  ibv_ah* const ah = Verbs().create_ah(pd, &path);
  CHECK(ah != nullptr) << "errno " << errno;
  handles_.push_back(ah);
  return ah;
}

int DatagramEnd::SendDatagram(const Datagram& datagram) {
  ibv_sge entry = Entry(datagram.offset, datagram.length);
  ibv_send_wr request = {};
  request.wr_id = datagram.wr_id;
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = datagram.flags;
  request.wr.ud = {datagram.ah, datagram.number, datagram.qkey};
  return Post(request);
}

int DatagramEnd::SendTo(const DatagramEnd& to, uint64_t wr_id, size_t offset,
                        size_t length) {
  return SendDatagram({.ah = Handle(to.gid.gid),
                       .number = to.qp->qp_num,
                       .wr_id = wr_id,
                       .offset = offset,
                       .length = length});
}

}  // namespace verbena::conformance
