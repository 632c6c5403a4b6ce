// A channel from inside.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_CHANNEL_IMPL_H_
#define VERBENA_RPC_INTERNAL_CLIENT_CHANNEL_IMPL_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/buffer.h"
#include "rpc/channel_options.h"
#include "rpc/channel_state.h"
#include "rpc/internal/client/open_calls.h"
#include "rpc/internal/client/poller_user.h"
#include "rpc/internal/client/shared_poller.h"
#include "rpc/internal/client/subchannel.h"
#include "rpc/internal/client/unary_call.h"
#include "transport/base/endpoint_options.h"
#include "transport/connection/poller_task.h"

namespace verbena::internal {

// Puts together who polls (SharedPoller), what is connected (Subchannel) and
// which calls are open (OpenCalls), and tells each what happens to the others.
//
// Public functions may be called from any thread. Destroy it after all blocking
// calls have returned; asynchronous ones end with CANCELLED.
class ChannelImpl final : private PollerUser {
 public:
  ChannelImpl(std::string target, const ChannelOptions& options);
  ChannelImpl(const ChannelImpl&) = delete;
  ChannelImpl& operator=(const ChannelImpl&) = delete;
  // REQUIRES: !InCallback().
  ~ChannelImpl();

  const std::string& target() const { return subchannel_.target(); }
  uint64_t max_send_message_bytes() const { return max_send_message_bytes_; }
  ChannelState state(bool try_to_connect) {
    return subchannel_.state(try_to_connect);
  }
  std::string device() const { return subchannel_.device(); }
  bool WaitForConnected(absl::Time deadline) {
    return subchannel_.WaitForConnected(deadline);
  }
  Buffer AllocateBuffer(size_t bytes) const {
    return subchannel_.AllocateBuffer(bytes);
  }

  // Whether this thread is in a callback of this channel.
  bool InCallback() const { return poller_.PolledByThisThread(); }

  // What the calls of this channel are made with.
  OpenCalls* calls() { return &calls_; }

  // Makes a prepared call, and returns when it has its status.
  // REQUIRES: !InCallback().
  void Call(UnaryCall* call);
  // Starts a prepared call with an on_done, which UnaryCall::New() made; takes
  // it over.
  void CallAsync(UnaryCall* call);
  // Has the on_done of such a call that could not be prepared called.
  void ReportAsync(UnaryCall* call);

 private:
  // Runs when an attempt to connect has ended.
  class AttemptEnded final : public transport::PollerTask {
   public:
    explicit AttemptEnded(ChannelImpl* channel) : channel_(channel) {}
    void Run() override { channel_->OnAttemptEnded(); }

   private:
    ChannelImpl* const channel_;
  };

  ChannelImpl(std::string target, const ChannelOptions& options,
              const absl::StatusOr<transport::EndpointOptions>& endpoint);

  void OnAttemptEnded();

  // As the poller's user.
  void OnConnectionUnusable() override;
  void OnTimer(absl::Time now) override;
  void RunBlocking() override { subchannel_.RunBlocking(); }
  void OnNotified() override { subchannel_.ConnectIfAsked(); }
  void OnStop() override;

  const uint64_t max_send_message_bytes_;
  AttemptEnded attempt_ended_{this};
  SharedPoller poller_;
  Subchannel subchannel_;
  OpenCalls calls_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_CHANNEL_IMPL_H_
