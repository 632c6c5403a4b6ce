// CmEnd, the client or server of the RDMA CM tests, on any device.

#ifndef VERBENA_TESTS_CONFORMANCE_CM_END_H_
#define VERBENA_TESTS_CONFORMANCE_CM_END_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace verbena::conformance {

// Copy of an event that was taken from a channel and acknowledged.
struct CmReport {
  rdma_cm_event_type type = RDMA_CM_EVENT_DEVICE_REMOVAL;
  int status = 0;
  rdma_cm_id* id = nullptr;
  rdma_cm_id* listen_id = nullptr;
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t retries = 0;
  std::string data;  // Private data without the zeros at its end.
};

// An event channel, a listener after Listen(), and one connection at a time
// with its queue pair. Functions that return int return 0 or an errno. Any
// other failure fails the test or ends the process. For one thread.
class CmEnd {
 public:
  CmEnd();
  CmEnd(const CmEnd&) = delete;
  CmEnd& operator=(const CmEnd&) = delete;
  ~CmEnd();

  // Listens at the address under test. Returns the port.
  uint16_t Listen(int backlog = 8);
  void StopListening();

  // Replaces `id` by a new one, which is not bound yet.
  void CreateId();
  // Begins to resolve the address under test.
  int ResolveAddr(uint16_t port);
  int ResolveRoute();
  // Resolves address and route of a new id, with their events, and creates its
  // queue pair.
  void Resolve(uint16_t port);
  int CreateQp();
  int Connect(absl::string_view data);
  // Resolves and connects.
  void Dial(uint16_t port, absl::string_view data = "");

  // Waits for a connection request, replaces `id` by that of the request, and
  // creates its queue pair.
  CmReport TakeRequest();
  int Accept(absl::string_view data);
  int Reject(absl::string_view data);
  int Disconnect();
  void DestroyId();

  // Waits for the next event, which must be of this type.
  CmReport Expect(rdma_cm_event_type type);
  // Fails the test if an event comes within some milliseconds.
  void ExpectNothing();
  // Takes the next event without waiting. Returns an errno if there is none.
  int Poll(CmReport* report);

  ibv_qp_state State() const;
  void PostReceive();
  void Send(absl::string_view text);
  // Waits for one completion.
  ibv_wc Wait();
  // The text that the last receive has brought.
  std::string Received() const { return memory_.data(); }

  rdma_event_channel* channel = nullptr;
  rdma_cm_id* listener = nullptr;
  rdma_cm_id* id = nullptr;
  // retry_count and rnr_retry_count of Connect() and Accept().
  uint8_t retries = 7;

 private:
  // The first CreateQp() creates these three on the device of its id.
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  std::array<char, 256> memory_ = {};
};

// Connects `client` to `server`, which begins to listen.
void Connect(CmEnd& client, CmEnd& server);

}  // namespace verbena::conformance

#endif  // VERBENA_TESTS_CONFORMANCE_CM_END_H_
