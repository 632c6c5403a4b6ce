// Requests that concern the requester's own device: binding a memory window and
// invalidating one. Not the data path: they take a lock of the device.

#include "transport/soft/base/live_handles.h"
#include "transport/soft/connected/requester.h"
#include "transport/soft/memory/memory_windows.h"

namespace verbena::soft {

void Requester::StoreBinding(const ibv_send_wr& wr) {
  const ibv_mw_bind_info& info = wr.bind_mw.bind_info;
  details_[ring_.index(posted_)].binding = {
      .window = wr.bind_mw.mw->rkey,
      .key = wr.bind_mw.rkey,
      .region = IsLive(info.mr) ? info.mr->rkey : 0,
      .access = info.mw_access_flags,
      .address = info.addr,
      .length = info.length,
  };
}

// Executes request sending_ in its turn, and lets the peer count it, so that it
// is acknowledged in order with the others. It is executed once, even if the
// packet that counts it has to be sent again because a receiver was not ready.
bool Requester::TransmitLocal(LinkEnd& link, Slot& request) {
  if (link.Reserve(0) == nullptr) return false;
  if (!request.done) {
    const bool bind = request.is(IBV_WR_BIND_MW);
    request.done = bind ? environment_.windows->Bind(
                              details_[ring_.index(sending_)].binding,
                              environment_.pd, environment_.qp)
                        : environment_.windows->Invalidate(request.immediate,
                                                           environment_.qp);
    if (!request.done) {
      Fail(sending_, bind ? IBV_WC_MW_BIND_ERR : IBV_WC_LOC_QP_OP_ERR);
      return false;
    }
  }
  Packet packet;
  packet.kind = PacketKind::kCount;
  packet.flags = kPacketFirst | kPacketLast;
  packet.number = sending_;
  link.Publish(packet);
  Advance();
  if (CountLocal()) Complete();
  return true;
}

// Local requests need no peer: one that has executed counts as acknowledged as
// soon as all before it are. So it ends well though the peer should vanish.
// Whether there was one.
bool Requester::CountLocal() {
  const uint32_t before = acknowledged_;
  while (acknowledged_ != sending_ && ring_.slot(acknowledged_).local() &&
         ring_.slot(acknowledged_).done) {
    ++acknowledged_;
  }
  return acknowledged_ != before;
}

}  // namespace verbena::soft
