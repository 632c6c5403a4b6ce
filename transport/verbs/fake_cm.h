// A connection manager that only writes down what it is asked. For tests.

#ifndef VERBENA_TRANSPORT_VERBS_FAKE_CM_H_
#define VERBENA_TRANSPORT_VERBS_FAKE_CM_H_

#include <rdma/rdma_cma.h>

#include <deque>
#include <string>
#include <vector>

#include "transport/verbs/provider.h"

namespace verbena::transport {

// An event channel made by create_event_channel of the fake.
struct FakeChannel : rdma_event_channel {
  static FakeChannel& From(rdma_event_channel* channel) {
    return *static_cast<FakeChannel*>(channel);
  }

  // Makes get_cm_event return it.
  void Push(const rdma_cm_event& event);

  std::deque<rdma_cm_event> events;
  int error = 0;    // If not 0, get_cm_event fails with it.
  int unacked = 0;  // Events returned and not acknowledged.
};

// An id made by create_id of the fake.
struct FakeId : rdma_cm_id {
  static FakeId& From(rdma_cm_id* id) { return *static_cast<FakeId*>(id); }

  std::vector<std::string> calls;  // Verbs, with the arguments that matter.
  int error = 0;  // If not 0, every verb but destroy_id fails with it.
};

const Provider& FakeProvider();

// A provider of a machine without RDMA: nothing can be made.
const Provider& AbsentProvider();

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_VERBS_FAKE_CM_H_
