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

int DatagramEnd::SendTo(const DatagramEnd& to, uint64_t wr_id, size_t offset,
                        size_t length) {
  return SendDatagram({.ah = Handle(to.gid.gid),
                       .number = to.qp->qp_num,
                       .wr_id = wr_id,
                       .offset = offset,
                       .length = length});
}

}  // namespace verbena::conformance
