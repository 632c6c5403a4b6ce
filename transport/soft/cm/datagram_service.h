// How identifiers of the port space UDP find each other's queue pairs.

#ifndef VERBENA_TRANSPORT_SOFT_CM_DATAGRAM_SERVICE_H_
#define VERBENA_TRANSPORT_SOFT_CM_DATAGRAM_SERVICE_H_

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <random>

#include "absl/base/thread_annotations.h"
#include "transport/soft/address/cm_datagram.h"
#include "transport/soft/cm/cm_endpoint.h"
#include "transport/soft/cm/cm_events.h"
#include "transport/soft/cm/cm_locks.h"
#include "transport/soft/cm/endpoint_addresses.h"
#include "transport/soft/cm/endpoint_callbacks.h"
#include "transport/soft/remote/datagram_network.h"

namespace verbena::soft {

// Asks the service at an address for the number of its queue pair, and answers
// such questions for listeners: the messages of cm_datagram.h. Nothing is
// connected by that. A question that gets no answer is asked again, so what is
// lost on the way does no harm.
//
// A peer's messages are validated before they are used. An answer must bear the
// number of the question.
//
// Thread-safe: its methods are called with kEndpoints held. Connect(), Accept()
// and Reject() are the user's calls, and return 0 or an errno. The parts that
// it is made with outlive it.
class DatagramService {
 public:
  DatagramService(DatagramNetwork& network, EndpointCallbacks& callbacks,
                  EndpointAddresses& addresses, CmEvents& events)
      : network_(network),
        callbacks_(callbacks),
        addresses_(addresses),
        events_(events) {}
  DatagramService(const DatagramService&) = delete;
  DatagramService& operator=(const DatagramService&) = delete;

  // Asks the peer of `endpoint` for its queue pair.
  int Connect(CmEndpoint& endpoint, const rdma_conn_param* parameters)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

  // Takes questions for `listener`, which is bound. Returns 0 or an errno.
  int Start(CmEndpoint& listener) ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  int Accept(CmEndpoint& endpoint, const rdma_conn_param* parameters)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  int Reject(CmEndpoint& endpoint, const void* private_data, uint8_t length)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

  // The user destroys `endpoint`.
  void End(CmEndpoint& endpoint, ClosingSockets& closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

 private:
  int Watch(CmEndpoint& endpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  int Send(const CmEndpoint& endpoint, const CmDatagram& datagram);
  void Ask(CmEndpoint& endpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void AskAgain(CmEndpoint& endpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void OnReadable(CmEndpoint& endpoint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void OnQuestion(CmEndpoint& listener, const CmDatagram& question)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  // Whether the listener has room to remember one more question.
  bool HasRoom(CmEndpoint& listener) ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void OnAnswer(CmEndpoint& endpoint, const CmDatagram& answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void Answer(CmEndpoint& endpoint, CmDatagram reply, CmState state)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

  DatagramNetwork& network_;
  EndpointCallbacks& callbacks_;
  EndpointAddresses& addresses_;
  CmEvents& events_;
  // The number of the next question. Numbers begin at random, so that those of
  // a process are not taken for those of one that had its address before.
  uint64_t next_question_ ABSL_GUARDED_BY(kEndpoints) = std::random_device()();
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_DATAGRAM_SERVICE_H_
