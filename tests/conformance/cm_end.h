// One side of connections that the connection manager makes, on any device.

#ifndef VERBENA_TESTS_CONFORMANCE_CM_END_H_
#define VERBENA_TESTS_CONFORMANCE_CM_END_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace verbena::conformance {

// What came out of a channel, acknowledged.
struct CmReport {
  rdma_cm_event_type type = RDMA_CM_EVENT_DEVICE_REMOVAL;
  int status = 0;
  rdma_cm_id* id = nullptr;
  rdma_cm_id* listen_id = nullptr;
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t retries = 0;
  std::string data;  // Without the zeros at its end.
};

// A channel, a listener if it wants one, and one connection at a time with its
// queue pair. The verbs return 0 or an errno; whatever else goes wrong fails
// the test. For one thread.
class CmEnd {
 public:
  CmEnd();
  CmEnd(const CmEnd&) = delete;
  CmEnd& operator=(const CmEnd&) = delete;
  ~CmEnd();

  // Listens at the address under test. Returns the port.
  uint16_t Listen(int backlog = 8);
  void StopListening();

  // A new id, bound to nothing yet.
  void CreateId();
  // What begins resolving the address under test.
  int ResolveAddr(uint16_t port);
  int ResolveRoute();
  // Both, with their events, and a queue pair.
  void Resolve(uint16_t port);
  int CreateQp();
  int Connect(absl::string_view data);
  // Resolves and connects.
  void Dial(uint16_t port, absl::string_view data = "");

  // Waits for a request and takes over its id, with a queue pair.
  CmReport TakeRequest();
  int Accept(absl::string_view data);
  int Reject(absl::string_view data);
  int Disconnect();
  void DestroyId();

  // The next event, which must be of this type.
  CmReport Expect(rdma_cm_event_type type);
  // Nothing comes for some milliseconds.
  void ExpectNothing();
  // The next event at once; the errno if there is none.
  int Poll(CmReport* report);

  ibv_qp_state State() const;
  void PostReceive();
  void Send(absl::string_view text);
  // Waits for one completion.
  ibv_wc Wait();
  // What the last receive has brought.
  std::string Received() const { return memory_.data(); }

  rdma_event_channel* channel = nullptr;
  rdma_cm_id* listener = nullptr;
  rdma_cm_id* id = nullptr;
  // What it connects and accepts with, for both kinds of retries.
  uint8_t retries = 7;

 private:
  ibv_pd* pd_ = nullptr;  // Of the device of the first id, with the rest.
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  std::array<char, 256> memory_ = {};
};

// A connection between the two; `server` listens.
void Connect(CmEnd& client, CmEnd& server);

}  // namespace verbena::conformance

#endif  // VERBENA_TESTS_CONFORMANCE_CM_END_H_
