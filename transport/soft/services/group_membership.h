// The multicast groups of identifiers.

#ifndef VERBENA_TRANSPORT_SOFT_SERVICES_GROUP_MEMBERSHIP_H_
#define VERBENA_TRANSPORT_SOFT_SERVICES_GROUP_MEMBERSHIP_H_

#include "absl/base/thread_annotations.h"
#include "transport/base/socket_address.h"
#include "transport/soft/address/gid_table.h"
#include "transport/soft/cm/cm_events.h"
#include "transport/soft/cm/cm_locks.h"
#include "transport/soft/cm/endpoint_addresses.h"
#include "transport/soft/services/service_endpoint.h"

namespace verbena::soft {

// Joins and leaves groups for identifiers of the port space UDP. A group is an
// address and nothing else: nobody keeps a list of its members, so joining
// attaches the queue pair and is done.
//
// Thread-safe: its methods are called with kEndpoints held. The parts that it
// is made with outlive it.
class GroupMembership {
 public:
  GroupMembership(const GidTable& gids, EndpointAddresses& addresses,
                  CmEvents& events)
      : gids_(gids), addresses_(addresses), events_(events) {}
  GroupMembership(const GroupMembership&) = delete;
  GroupMembership& operator=(const GroupMembership&) = delete;

  // rdma_join_multicast and rdma_leave_multicast: return 0 or an errno. With
  // `send_only` the queue pair is not attached. `context` comes back with the
  // event.
  int Join(ServiceEndpoint& endpoint, const base::SocketAddress& group,
           bool send_only, void* context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  int Leave(ServiceEndpoint& endpoint, const base::SocketAddress& group)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

  // Detaches the queue pair of `endpoint`, which is about to be destroyed, from
  // all groups. The endpoint stays a member until it leaves.
  void DetachQueuePair(ServiceEndpoint& endpoint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

 private:
  const GidTable& gids_;
  EndpointAddresses& addresses_;
  CmEvents& events_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_SERVICES_GROUP_MEMBERSHIP_H_
