// A port space of the connection manager.

#ifndef VERBENA_TRANSPORT_SOFT_CM_PORT_SPACE_H_
#define VERBENA_TRANSPORT_SOFT_CM_PORT_SPACE_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "transport/base/socket_address.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/address/cm_address.h"
#include "transport/soft/cm/cm_endpoint.h"
#include "transport/soft/cm/cm_locks.h"
#include "transport/soft/cm/endpoint_callbacks.h"

namespace verbena::soft {

// Does what the identifiers of one port space are called for. Identifiers of
// ConnectionSpace (TCP) connect queue pairs. Identifiers of DatagramService
// (UDP), which RPC does not link, find them.
//
// Thread-safe: its methods are called with kEndpoints held. Those with the name
// of a function of librdmacm are called by the user, and return 0 or an errno.
class PortSpace {
 public:
  PortSpace() = default;
  PortSpace(const PortSpace&) = delete;
  PortSpace& operator=(const PortSpace&) = delete;
  virtual ~PortSpace() = default;

  // Returns a new identifier without a manager. Allowed without the lock.
  virtual std::shared_ptr<CmEndpoint> MakeEndpoint() = 0;

  // Opens the socket of an identifier at `address`, and chooses a port if that
  // is 0: then `address` is changed. Returns 0 or an errno.
  virtual int OpenSocket(base::SocketAddress& address, BindPurpose purpose,
                         base::UniqueFd& socket) = 0;

  // Takes a new queue pair of an identifier to the state in which the user gets
  // it. Returns 0 or an errno.
  virtual int PrepareQp(ibv_qp* qp) = 0;
  // Parts `endpoint` from its queue pair, which is about to be destroyed.
  virtual void LetGoOfQp(CmEndpoint& endpoint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) = 0;

  // `endpoint` is bound.
  virtual int Listen(CmEndpoint& endpoint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) = 0;
  virtual int Connect(CmEndpoint& endpoint, const rdma_conn_param* parameters,
                      ClosingSockets& closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) = 0;
  virtual int Accept(CmEndpoint& endpoint, const rdma_conn_param* parameters)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) = 0;
  virtual int Reject(CmEndpoint& endpoint, const void* private_data,
                     uint8_t length)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) = 0;
  virtual int Disconnect(CmEndpoint& endpoint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) = 0;
  virtual int Establish(CmEndpoint& endpoint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) = 0;
  virtual int InitQpAttr(CmEndpoint& endpoint, ibv_qp_attr& attributes,
                         int& mask)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) = 0;

  // The user destroys `endpoint`.
  virtual void End(CmEndpoint& endpoint, ClosingSockets& closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) = 0;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_PORT_SPACE_H_
