// The object behind an rdma_cm_id of the port space UDP.

#ifndef VERBENA_TRANSPORT_SOFT_SERVICES_SERVICE_ENDPOINT_H_
#define VERBENA_TRANSPORT_SOFT_SERVICES_SERVICE_ENDPOINT_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "transport/soft/cm/cm_endpoint.h"
#include "transport/soft/cm/cm_locks.h"
#include "transport/soft/datagram/cm_datagram.h"

namespace verbena::soft {

// A multicast group that an endpoint is a member of.
struct GroupRecord {
  ibv_gid gid;
  bool attached;  // The queue pair receives what is sent to the group.
};

// An endpoint that asks for a service, or offers one.
struct ServiceEndpoint final : CmEndpoint {
  // REQUIRES: `endpoint` is of the port space UDP.
  static ServiceEndpoint& From(CmEndpoint& endpoint) {
    return static_cast<ServiceEndpoint&>(endpoint);
  }

  // The question that was asked or received; later the answer that was given.
  CmDatagram datagram ABSL_GUARDED_BY(kEndpoints);
  // For a listener: the endpoints that were born of questions, by the asker's
  // address and its number of the question. So a question that is asked again
  // gives birth to no other endpoint.
  std::map<std::pair<std::string, uint64_t>, std::weak_ptr<ServiceEndpoint>>
      questions ABSL_GUARDED_BY(kEndpoints);
  std::vector<GroupRecord> groups ABSL_GUARDED_BY(kEndpoints);
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_SERVICES_SERVICE_ENDPOINT_H_
