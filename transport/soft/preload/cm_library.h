// The parts of librdmacm above the calls of CmOps: synchronous identifiers,
// endpoints, and objects that librdmacm makes when the user gives none.

#ifndef VERBENA_TRANSPORT_SOFT_PRELOAD_CM_LIBRARY_H_
#define VERBENA_TRANSPORT_SOFT_PRELOAD_CM_LIBRARY_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/verbs/provider.h"

namespace verbena::soft {

// librdmacm for the identifiers of one provider, which has only its CmOps. Each
// method has the behaviour of the librdmacm function of its name: it returns 0,
// or -1 with errno.
//
// Thread-safe, as far as librdmacm is: one thread at a time uses an identifier.
class CmLibrary {
 public:
  // `provider` outlives it.
  explicit CmLibrary(const transport::Provider& provider);
  CmLibrary(const CmLibrary&) = delete;
  CmLibrary& operator=(const CmLibrary&) = delete;
  // REQUIRES: all identifiers are destroyed.
  ~CmLibrary();

  // Identifiers. Without a channel an identifier is synchronous: it has a
  // channel of its own, and every call waits for its outcome, which is
  // rdma_cm_id::event until the next call.
  int CreateId(rdma_event_channel* channel, rdma_cm_id** id, void* context,
               rdma_port_space port_space);
  int DestroyId(rdma_cm_id* id);
  int MigrateId(rdma_cm_id* id, rdma_event_channel* channel);
  int GetCmEvent(rdma_event_channel* channel, rdma_cm_event** event);

  int BindAddr(rdma_cm_id* id, sockaddr* address);
  int ResolveAddr(rdma_cm_id* id, sockaddr* source, sockaddr* destination,
                  int timeout_ms);
  int ResolveRoute(rdma_cm_id* id, int timeout_ms);
  int Connect(rdma_cm_id* id, rdma_conn_param* parameters);
  int Accept(rdma_cm_id* id, rdma_conn_param* parameters);
  int Disconnect(rdma_cm_id* id);

  // Queues. If the user gives no protection domain, the one that is kept for
  // the device is used. If he gives no completion queues, queues and channels
  // are made for the identifier, and destroyed with its queue pair.
  int CreateQp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attributes);
  void DestroyQp(rdma_cm_id* id);
  int CreateSrq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* attributes);
  void DestroySrq(rdma_cm_id* id);

  // Endpoints: an identifier with all that `address` and `attributes` ask for.
  int CreateEp(rdma_cm_id** id, const rdma_addrinfo* address, ibv_pd* pd,
               ibv_qp_init_attr* attributes);
  void DestroyEp(rdma_cm_id* id);
  int GetRequest(rdma_cm_id* listener, rdma_cm_id** id);

 private:
  // The state that is kept beside an rdma_cm_id.
  struct Record {
    bool synchronous = false;
    // Arguments for the queue pairs of a listening endpoint's connections.
    ibv_pd* pd = nullptr;
    std::optional<ibv_qp_init_attr> qp_attributes;
  };

  // Sets errno and returns -1, which is how every call fails.
  static int Fail(int error) {
    errno = error;
    return -1;
  }

  Record& RecordOf(rdma_cm_id* id);
  bool IsSynchronous(rdma_cm_id* id);
  int MakeSynchronous(rdma_cm_id* id);
  // If `id` is synchronous, waits for the outcome of the call that was made.
  int Complete(rdma_cm_id* id);
  // Acknowledges the event that a synchronous identifier still shows.
  void AcknowledgeEvent(rdma_cm_id* id);
  int StartEp(rdma_cm_id* id, const rdma_addrinfo& address, ibv_pd* pd,
              ibv_qp_init_attr* attributes);
  // Gives `id` the protection domain of its device, if it is bound to one and
  // has no domain yet.
  void FillPd(rdma_cm_id* id);
  int CreateCqs(rdma_cm_id* id, uint32_t send_depth, uint32_t receive_depth);
  void DestroyCqs(rdma_cm_id* id);

  const transport::VerbsOps& verbs_;
  const transport::CmOps& cm_;

  base::Mutex mutex_;
  // A record is stable until its identifier is destroyed, and is used by the
  // one thread that uses the identifier.
  std::unordered_map<rdma_cm_id*, std::unique_ptr<Record>> records_
      ABSL_GUARDED_BY(mutex_);
  // The protection domain of each device, for users who bring none.
  std::unordered_map<ibv_context*, ibv_pd*> pds_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_PRELOAD_CM_LIBRARY_H_
