// A connection between two queue pairs, from the request to the end.

#ifndef VERBENA_TRANSPORT_SOFT_CM_CONNECTION_HANDSHAKE_H_
#define VERBENA_TRANSPORT_SOFT_CM_CONNECTION_HANDSHAKE_H_

#include <rdma/rdma_cma.h>

#include <chrono>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "transport/soft/cm/cm_endpoint.h"
#include "transport/soft/cm/cm_events.h"
#include "transport/soft/cm/cm_locks.h"
#include "transport/soft/cm/cm_queue_pair.h"
#include "transport/soft/cm/endpoint_addresses.h"
#include "transport/soft/cm/endpoint_callbacks.h"
#include "transport/soft/link/cm_message.h"
#include "transport/soft/link/link.h"

namespace verbena::soft {

// How long the other application may take to answer, and to become ready.
inline constexpr std::chrono::seconds kHandshakeTimeout(5);

// Fills in what both connect and accept say of a connection. Null parameters
// ask for the most, as do the two special values of librdmacm. False when they
// ask for more than the device has, or bring more than `data_bytes_max` of
// private data.
bool SetParameters(const rdma_conn_param* parameters, uint8_t data_bytes_max,
                   CmMessage& message);

// Fills in which queue pair is to be connected: that of `endpoint` or, if it
// has none, the one of the user's own that he names. False if there is neither.
bool SetQueuePair(const CmEndpoint& endpoint, const rdma_conn_param* parameters,
                  CmMessage& message);

// Both sides of a connection once the request is under way: the messages of
// cm_message.h, and what the user says to them.
//
// A peer's messages are validated before they are used. If a message may not
// come in the state of the endpoint, the connection ends.
//
// Thread-safe: its methods are called with kEndpoints held. Accept(), Reject()
// and Disconnect() are the user's calls, and return 0 or an errno. The parts
// that it is made with outlive it.
class ConnectionHandshake {
 public:
  ConnectionHandshake(EndpointCallbacks& callbacks,
                      EndpointAddresses& addresses, CmEvents& events)
      : callbacks_(callbacks), addresses_(addresses), events_(events) {}
  ConnectionHandshake(const ConnectionHandshake&) = delete;
  ConnectionHandshake& operator=(const ConnectionHandshake&) = delete;

  // Handles what comes from the peer on the socket of `endpoint`, from now on.
  // Returns 0, or the errno of a kernel that does not let it.
  int Watch(CmEndpoint& endpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  // Closes the connection if it has not come up at the endpoint's deadline.
  void StartTimer(CmEndpoint& endpoint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

  int Accept(CmEndpoint& endpoint, const rdma_conn_param* parameters)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  int Reject(CmEndpoint& endpoint, const void* private_data, uint8_t length)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  // For a user who drives a queue pair of his own: what modify_qp needs to take
  // it to `attributes.qp_state`, and that it is ready.
  int InitQueuePairAttributes(const CmEndpoint& endpoint,
                              ibv_qp_attr& attributes, int& mask)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  int Establish(CmEndpoint& endpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  int Disconnect(CmEndpoint& endpoint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

  // Closes a connection that has not come up, and tells the user why.
  void Fail(CmEndpoint& endpoint, rdma_cm_event_type type, int status,
            ClosingSockets& closing) ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

  // The user destroys `endpoint`.
  void End(CmEndpoint& endpoint, ClosingSockets& closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

 private:
  void OnReadable(CmEndpoint& endpoint, ClosingSockets& closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  // False when `message` may not come in this state.
  bool HandleMessage(CmEndpoint& endpoint, const CmMessage& message,
                     ClosingSockets& closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void HandleReply(CmEndpoint& endpoint, const CmMessage& reply,
                   ClosingSockets& closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void HandleReject(CmEndpoint& endpoint, const CmMessage& reject)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void HandleEnd(CmEndpoint& endpoint, ClosingSockets& closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  // The terms of the connection, with the path.
  CmQueuePairTerms TermsOf(const CmEndpoint& endpoint) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  // Joins the queue pair to the peer's by the terms, and makes it ready to
  // send. Returns 0 or an errno.
  int ConnectQueuePair(CmEndpoint& endpoint, LinkSide side,
                       bool peer_drives_its_own)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

  EndpointCallbacks& callbacks_;
  EndpointAddresses& addresses_;
  CmEvents& events_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_CONNECTION_HANDSHAKE_H_
