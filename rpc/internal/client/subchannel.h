// A server's address, and the connections to the server that take calls.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_SUBCHANNEL_H_
#define VERBENA_RPC_INTERNAL_CLIENT_SUBCHANNEL_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/buffer.h"
#include "rpc/channel_options.h"
#include "rpc/channel_state.h"
#include "rpc/internal/client/backoff.h"
#include "rpc/internal/client/poller_timer.h"
#include "rpc/internal/client/resolution.h"
#include "rpc/internal/client/shared_buffer_source.h"
#include "rpc/internal/client/shared_poller.h"
#include "rpc/internal/client/subchannel_connections.h"
#include "rpc/metrics.h"
#include "transport/base/counter.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/mutex.h"
#include "transport/client/client_connection.h"
#include "transport/polling/ownership.h"
#include "transport/polling/task.h"

namespace verbena::internal {

// Connects when it is told to, spaces attempts that fail by a growing pause,
// and lets go of a connection that is of no use any more. Subchannel knows
// nothing of calls. To make a call, OpenCalls asks for connection(); if that is
// not usable, for WhyNot() and for an attempt.
//
// Nobody waits for an attempt: it looks the target up (see Resolution), and
// goes on with the addresses that it has found, one after the other, as the
// connections that it makes on the poller tell what became of them.
//
// Functions are for any thread, unless they stand under a line that
// says otherwise.
class Subchannel final : private transport::ClientConnection::Observer {
 public:
  using ClientConnection = transport::ClientConnection;

  // `endpoint` is an error if the options are not valid: then there is never an
  // attempt. `poller` drives the connection. `timer` leads to Connect() or to
  // Rest(). `crowd` is that of the process. `on_attempt_ended` hears what came
  // of each attempt, with the ownership held, from a task of its own: an error
  // is for calls that do not wait any longer, and UNAVAILABLE unless another
  // attempt can't go otherwise. All outlive this.
  Subchannel(std::string target, const ChannelOptions& options,
             const absl::StatusOr<transport::EndpointOptions>& endpoint,
             SharedPoller* poller, PollerTimer* timer, BackoffCrowd* crowd,
             std::function<void(const absl::Status&)> on_attempt_ended);
  Subchannel(const Subchannel&) = delete;
  Subchannel& operator=(const Subchannel&) = delete;
  // REQUIRES: Shut() was called, and what was posted before that has run.
  ~Subchannel() = default;

  const std::string& target() const { return target_; }

  // `try_to_connect` makes an idle subchannel connect.
  ChannelState state(bool try_to_connect);
  std::string device() const;
  // Sets those fields of `metrics` which tell what is connected, how, and why.
  void Describe(ChannelMetrics* metrics) const;
  // See Channel::WaitForConnected().
  bool WaitForConnected(absl::Time deadline);
  Buffer AllocateBuffer(size_t bytes) const { return buffers_.Allocate(bytes); }
  Buffer AllocateSpare(size_t bytes) const {
    return buffers_.AllocateSpare(bytes);
  }

  // The number of connections that were made, and of attempts that failed.
  uint64_t connects() const { return connects_.value(); }
  uint64_t failed_connects() const { return failed_connects_.value(); }

  // --- With the poller's ownership held ---

  // The connection for the next call; null unless connected. Calls may be
  // started only if it is usable().
  ClientConnection* connection() const {
    ownership_.AssertHeld();
    return connections_.Pick();
  }

  // Returns the error for a call that can't wait for a connection; OK if it may
  // wait. A patient call waits although an attempt has failed. Any call does if
  // that was because the server is shutting down.
  absl::Status WhyNot(bool patient) const;

  // Begins an attempt, now or when the pause after a failure is over (for which
  // it uses the timer). Does nothing if there is a connection, or an attempt is
  // under way.
  void Connect();
  // The timer went off and nobody wants a connection.
  void Rest();
  // Whether a thread waits for a connection without making a call.
  bool IsWaitedFor() const;

  // Returns the reason why the last attempt failed.
  const absl::Status& connect_error() const {
    ownership_.AssertHeld();
    return failures_.error;
  }

  // Ends what is under way, and closes the connections, which fails their
  // calls. From now on WhyNot() is `status`, and there are no attempts.
  void Shut(const absl::Status& status);

 private:
  // Connects because another thread has asked for it.
  class Ask final : public transport::Task {
   public:
    explicit Ask(Subchannel* subchannel) : subchannel_(subchannel) {}
    // At most once at a time.
    void Post();
    void Run() override;

   private:
    Subchannel* const subchannel_;
    std::atomic<bool> posted_{false};
  };

  // Attempts that failed since the last connection.
  struct Failures {
    Backoff backoff;
    absl::Status error = absl::OkStatus();  // The last one's.
    bool in_crowd = false;                  // This counts in *crowd_.
    // Time before which there is no attempt.
    absl::Time retry_time = absl::InfinitePast();
  };
  // Facts for threads without the ownership, beside the state.
  struct Watched {
    std::string device;
    std::string fabric;
    std::string fabric_reason;
    size_t paths = 0;  // Connections that take calls.
    absl::Time fabric_since = absl::InfinitePast();
    // The last failure was the target's or the options' fault.
    bool hopeless = false;
    int watchers = 0;  // Threads in WaitForConnected().
  };

  // As the connection's observer.
  void OnConnected() override;
  void OnUnusable() override;

  void SetState(ChannelState state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  void OnResolved(Resolution::Result result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  // Acts on what has become of the connections.
  void LookAtConnections() ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  void OnConnected(bool replaced) ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  void OnLost() ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  // Looks for further addresses of the server that is connected.
  void FindPaths() ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  void AbandonPaths() ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  std::string WhyFabric() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  void OnFailed(const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  void LeaveCrowd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);

  const std::string target_;
  const transport::EndpointOptions options_;
  const Fabric fabric_;
  const int max_paths_;  // As in ChannelOptions.
  const SubchannelConnections::Delays delays_;
  SharedPoller& poller_;
  transport::Ownership& ownership_;  // The poller's.
  PollerTimer* const timer_;
  BackoffCrowd* const crowd_;
  const std::function<void(const absl::Status&)> on_attempt_ended_;
  SharedBufferSource buffers_;  // The memory of connection_.
  Ask ask_{this};

  SubchannelConnections connections_ ABSL_GUARDED_BY(ownership_);
  Resolution* resolution_ ABSL_GUARDED_BY(ownership_) = nullptr;
  Resolution* path_lookup_ ABSL_GUARDED_BY(ownership_) = nullptr;
  Failures failures_ ABSL_GUARDED_BY(ownership_);

  base::Counter connects_;
  base::Counter failed_connects_;

  mutable base::Mutex mutex_;
  base::CondVar state_changed_;
  // Written with the ownership held as well, so its holder needs no lock to
  // read it.
  ChannelState state_ = ChannelState::kIdle;
  // The reason why there will be no attempts; OK if there may be some. Written
  // like state_.
  absl::Status refusal_;
  Watched watched_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_SUBCHANNEL_H_
