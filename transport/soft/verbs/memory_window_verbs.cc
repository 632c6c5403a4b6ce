#include "transport/soft/verbs/memory_window_verbs.h"

#include <cerrno>

#include "transport/soft/base/live_handles.h"
#include "transport/soft/device/context.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/memory/memory_windows.h"
#include "transport/soft/verbs/refuse.h"

namespace verbena::soft {
namespace {

struct MemoryWindow final : ibv_mw {
  explicit MemoryWindow(const ibv_mw& window) : ibv_mw{window} {}

 private:
  const LiveHandle<ibv_mw> live_{this};
};

}  // namespace

ibv_mw* AllocMw(ibv_pd* pd, ibv_mw_type type) {
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
    return Refuse<ibv_mw>(EINVAL);
  }
  ProtectionDomain* const domain = ProtectionDomain::From(pd);
  // The window belongs to the domain that a parent domain stands for, as a
  // region does.
  const uint32_t key =
      SoftDevice::Get().windows().Allocate(&domain->original(), type);
  if (key == 0) return Refuse<ibv_mw>(ENOMEM);
  ++domain->children();
  return new MemoryWindow({pd->context, pd, key, 0, type});
}

// Waits for copies under way, as DeregMr() does: afterwards peers touch nothing
// by this key.
int DeallocMw(ibv_mw* mw) {
  SoftDevice::Get().windows().Free(mw->rkey);
  SoftDevice::Get().WaitForDataPath();
  --ProtectionDomain::From(mw->pd)->children();
  delete static_cast<MemoryWindow*>(mw);
  return 0;
}

// The window is of type 1: libibverbs has checked that. The new key is one that
// peers have not been told yet; the window has it if the request was posted.
int BindMw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) {
  if (qp->qp_type == IBV_QPT_UD) return EINVAL;  // Datagrams have no windows.
  if (!IsLive(mw)) return EINVAL;
  ibv_send_wr request = {};
  request.wr_id = bind->wr_id;
  request.opcode = IBV_WR_BIND_MW;
  request.send_flags = bind->send_flags;
  request.bind_mw.mw = mw;
  request.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
  request.bind_mw.bind_info = bind->bind_info;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp, &request, &bad);
  if (error == 0) mw->rkey = request.bind_mw.rkey;
  return error;
}

}  // namespace verbena::soft
