// libibverbs: protection domains, memory regions, completion queues.

#include <infiniband/verbs.h>

#include <cerrno>

#include "transport/soft/preload/next_definition.h"
#include "transport/soft/preload/soft_objects.h"

// The functions behind the macros.
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace verbena::soft {
namespace {

template <typename T>
// The device is not one of the kernel: there are no handles to import, and no
// memory of other devices.
T* Refuse() {
  errno = EOPNOTSUPP;
  return nullptr;
}

}  // namespace

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return VerbsOf(context).alloc_pd(context);
}

int ibv_dealloc_pd(ibv_pd* pd) { return VerbsOf(pd->context).dealloc_pd(pd); }

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, size_t length, int access) {
  return VerbsOf(pd->context).reg_mr(pd, addr, length, access);
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                        int access) {
  return VerbsOf(pd->context).reg_mr_iova(pd, addr, length, iova, access);
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                         unsigned int access) {
  if (IsSoft(pd->context)) {
    return Soft().verbs.reg_mr_iova(pd, addr, length, iova,
                                    static_cast<int>(access));
  }
  static const decltype(&ibv_reg_mr_iova2) next =
      NextDefinition("ibv_reg_mr_iova2");
  return next(pd, addr, length, iova, access);
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length,
                          uint64_t iova, int fd, int access) {
  if (IsSoft(pd->context)) return Refuse<ibv_mr>();
  static const decltype(&ibv_reg_dmabuf_mr) next =
      NextDefinition("ibv_reg_dmabuf_mr");
  return next(pd, offset, length, iova, fd, access);
}

int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, size_t length,
                 int access) {
  return VerbsOf(mr->context).rereg_mr(mr, flags, pd, addr, length, access);
}

int ibv_dereg_mr(ibv_mr* mr) { return VerbsOf(mr->context).dereg_mr(mr); }

ibv_pd* ibv_import_pd(ibv_context* context, uint32_t handle) {
  if (IsSoft(context)) return Refuse<ibv_pd>();
  static const decltype(&ibv_import_pd) next = NextDefinition("ibv_import_pd");
  return next(context, handle);
}

ibv_mr* ibv_import_mr(ibv_pd* pd, uint32_t handle) {
  if (IsSoft(pd->context)) return Refuse<ibv_mr>();
  static const decltype(&ibv_import_mr) next = NextDefinition("ibv_import_mr");
  return next(pd, handle);
}

ibv_dm* ibv_import_dm(ibv_context* context, uint32_t handle) {
  if (IsSoft(context)) return Refuse<ibv_dm>();
  static const decltype(&ibv_import_dm) next = NextDefinition("ibv_import_dm");
  return next(context, handle);
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return VerbsOf(context).create_comp_channel(context);
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return VerbsOf(channel->context).destroy_comp_channel(channel);
}

ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context,
                      ibv_comp_channel* channel, int comp_vector) {
  return VerbsOf(context).create_cq(context, cqe, cq_context, channel,
                                    comp_vector);
}

int ibv_resize_cq(ibv_cq* cq, int cqe) {
  return VerbsOf(cq->context).resize_cq(cq, cqe);
}

int ibv_destroy_cq(ibv_cq* cq) { return VerbsOf(cq->context).destroy_cq(cq); }

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq,
                     void** cq_context) {
  return VerbsOf(channel->context).get_cq_event(channel, cq, cq_context);
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned int count) {
  VerbsOf(cq->context).ack_cq_events(cq, count);
}

}  // extern "C"

}  // namespace verbena::soft
