// An end of a connection on the software device, for tests.

#ifndef VERBENA_TRANSPORT_SOFT_CM_CM_TEST_END_H_
#define VERBENA_TRANSPORT_SOFT_CM_CM_TEST_END_H_

#include <infiniband/verbs.h>

#include <array>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "transport/base/socket_address.h"
#include "transport/verbs/cm_event.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/event_channel.h"
#include "transport/verbs/provider.h"

namespace verbena::soft {

// The tables of the software device.
const transport::Provider& TestProvider();

// An event channel, a listener if it wants one, and one connection at a time
// with its queue pair. Everything that goes wrong fails the running test, but
// for the methods that return a Status.
//
// Not thread-safe.
class CmTestEnd {
 public:
  CmTestEnd();
  CmTestEnd(const CmTestEnd&) = delete;
  CmTestEnd& operator=(const CmTestEnd&) = delete;
  ~CmTestEnd();

  // Listens at `address` and returns it with the port that it got.
  base::SocketAddress Listen(absl::string_view address, int backlog = 0);
  void StopListening() { listener_.reset(); }

  // The next event, which must be of this type and come within ten seconds.
  transport::CmEvent Expect(rdma_cm_event_type type);
  // Expects that there is no event.
  void ExpectNothing();

  // The active side: makes an id, resolves, and gives it a queue pair.
  void Resolve(const base::SocketAddress& peer);
  absl::Status Connect(absl::string_view private_data);
  // Resolves and connects.
  void Dial(const base::SocketAddress& peer, absl::string_view data = "") {
    Resolve(peer);
    ExpectOk(Connect(data));
  }

  // The passive side: waits for a request, takes over its id and gives it a
  // queue pair.
  transport::CmEvent TakeRequest();
  absl::Status Accept(absl::string_view private_data);
  void ExpectOk(const absl::Status& status);

  // From now on its queue pairs are its own, which its id does not know, so
  // that it makes their transitions itself.
  void DriveOwnQueuePairs() { drives_own_ = true; }
  // Takes the queue pair to `state` with the attributes that the id has for
  // that. Returns 0 or an errno.
  int Modify(ibv_qp_state state);
  // The passive side: takes a request with a queue pair of its own, which is
  // ready before it is accepted.
  void TakeRequestReady();

  // Returns the private data of `event`, without the zeros at its end.
  static std::string Data(const transport::CmEvent& event);

  // Posts a receive for Received().
  void PostReceive();
  void Send(absl::string_view text);
  // Waits for a completion and returns its status.
  ibv_wc_status Complete();
  // Has the next completion wake whoever sleeps at the completion channel.
  void Arm();
  // As Complete(), but sleeps until the next completion after Arm().
  ibv_wc_status CompleteAsleep();
  // Returns the text of the last receive, up to the first zero byte.
  std::string Received() const { return receive_buffer_.data(); }

  ibv_qp_state QpState();

  transport::CmId& id() { return *id_; }
  transport::CmId& listener() { return *listener_; }
  transport::EventChannel& channel() { return channel_; }
  void Hangup() { id_.reset(); }
  ibv_qp* qp() { return own_qp_ != nullptr ? own_qp_ : id_->qp(); }

 private:
  void CreateQp();
  void DestroyOwnQp();
  rdma_conn_param Parameters(absl::string_view private_data, uint8_t resources,
                             uint8_t depth);

  transport::EventChannel channel_;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* completions_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;  // The memory region of receive_buffer_.
  std::array<char, 256> receive_buffer_ = {};
  std::optional<transport::CmId> listener_;
  std::optional<transport::CmId> id_;
  bool drives_own_ = false;
  ibv_qp* own_qp_ = nullptr;  // Null if the queue pair is the id's.
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_CM_TEST_END_H_
