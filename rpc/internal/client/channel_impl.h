// A channel from inside.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_CHANNEL_IMPL_H_
#define VERBENA_RPC_INTERNAL_CLIENT_CHANNEL_IMPL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/buffer.h"
#include "rpc/channel_options.h"
#include "rpc/channel_state.h"
#include "rpc/credentials.h"
#include "rpc/internal/client/interception.h"
#include "rpc/internal/client/open_calls.h"
#include "rpc/internal/client/poller_timer.h"
#include "rpc/internal/client/server_set.h"
#include "rpc/internal/client/shared_poller.h"
#include "rpc/internal/client/unary_call.h"
#include "rpc/metrics.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/mutex.h"
#include "transport/polling/poller_threads.h"
#include "transport/polling/task.h"

namespace verbena::internal {

// Puts together who polls (SharedPoller), what is connected (ServerSet) and
// which calls are open (OpenCalls), and tells each what happens to the others.
//
// Functions may be called from any thread.
class ChannelImpl final : private ServerSet::Observer {
 public:
  // Owned by the caller, which calls Retire(). Fails with RESOURCE_EXHAUSTED
  // where the process has neither a poller nor what to make one of; what is
  // wrong with the target, the credentials or the options is the status of
  // calls.
  static absl::StatusOr<ChannelImpl*> Create(
      const std::string& target,
      const std::shared_ptr<const ChannelCredentials>& credentials,
      const ChannelOptions& options);
  ChannelImpl(const ChannelImpl&) = delete;
  ChannelImpl& operator=(const ChannelImpl&) = delete;

  // Ends the calls that are open with CANCELLED, and destroys this. Returns
  // when the last callback has returned; inside a callback, of whichever
  // channel, at once. REQUIRES: no thread is in another function.
  void Retire();

  uint64_t max_send_message_bytes() const { return max_send_message_bytes_; }
  uint64_t max_receive_message_bytes() const {
    return max_receive_message_bytes_;
  }
  ChannelState state(bool try_to_connect) {
    return servers_.state(try_to_connect);
  }
  std::string device() const { return servers_.device(); }
  ChannelMetrics Metrics();
  bool WaitForConnected(absl::Time deadline) {
    return servers_.WaitForConnected(deadline);
  }
  // For a part of a long message of a stream; empty if there is no memory.
  Buffer AllocateSpare(size_t bytes) const {
    return servers_.AllocateSpare(bytes);
  }
  Buffer AllocateBuffer(size_t bytes) const {
    return servers_.AllocateBuffer(bytes);
  }

  // The calls of this channel, which each call needs to be made.
  OpenCalls* calls() { return &calls_; }

  // Makes a prepared call, and returns when it has its status.
  void Call(UnaryCall* call);
  // Whether the calling thread is in a callback that promises not to block. If
  // a call would block there, it ends with BlocksInCallback().
  bool RunsCallbackOfRound() const { return poller_.RunsCallbackOfRound(); }
  static absl::Status BlocksInCallback();
  // Starts a prepared call with an on_done, which UnaryCall::New() made; takes
  // it over.
  void CallAsync(UnaryCall* call);
  // Has the on_done of such a call called, if the call could not be prepared.
  void ReportAsync(UnaryCall* call);

  // For a call that streams. Starts it.
  void Start(OpenCall* call);
  // Has `task` run with the poller's ownership held, by this thread if it can
  // have that.
  void Post(transport::Task* task);
  // Has `task` run, which says what `waiter` waits for, and polls until that
  // has happened.
  void Await(transport::Task* task, Waiter* waiter);
  // Has `task`, which may block, run by the background thread.
  void PostInBackground(transport::ShortTask* task) {
    // As soon as `task` is added it may run, and the channel may be gone.
    SharedPoller& poller = poller_;
    poller.Pin();
    poller.PostInBackground(task);
    poller.Unpin();
  }
  // The event that `waiter` waits for has happened. With the poller's
  // ownership held.
  void Finish(Waiter* waiter) { poller_.Finish(waiter); }

 private:
  // The two steps of Retire() that are taken with the ownership held.
  class Retirement final : public transport::Task {
   public:
    explicit Retirement(ChannelImpl* channel) : channel_(channel) {}
    void Run() override;

   private:
    ChannelImpl* const channel_;
    bool calls_ended_ = false;
  };

  ChannelImpl(SharedPoller* poller, const std::string& target,
              const ChannelOptions& options,
              const absl::StatusOr<transport::EndpointOptions>& endpoint);
  ~ChannelImpl();

  // As the observer of servers_.
  void OnReady() override { calls_.StartWaiting(); }
  void OnUnavailable(const absl::Status& status) override;
  bool AnyWaiting() const override { return calls_.AnyWaiting(); }

  void OnReported();

  SharedPoller& poller_;
  const uint64_t max_send_message_bytes_;
  const uint64_t max_receive_message_bytes_;
  const ClientInterception::Factories interceptors_;
  // For the deadlines of waiting calls.
  PollerTimer timer_{[this](absl::Time now) { calls_.ExpireWaiting(now); }};
  ServerSet servers_;
  OpenCalls calls_;

  Retirement retirement_{this};
  base::Mutex mutex_;
  base::CondVar reported_changed_;
  bool awaited_ ABSL_GUARDED_BY(mutex_) = false;   // Retire() waits.
  bool reported_ ABSL_GUARDED_BY(mutex_) = false;  // All callbacks returned.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_CHANNEL_IMPL_H_
