// A server's address, and the connections to the server that take calls.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_SUBCHANNEL_H_
#define VERBENA_RPC_INTERNAL_CLIENT_SUBCHANNEL_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rpc/channel_options.h"
#include "rpc/channel_state.h"
#include "rpc/internal/client/backoff.h"
#include "rpc/internal/client/poller_timer.h"
#include "rpc/internal/client/resolution.h"
#include "rpc/internal/client/shared_poller.h"
#include "rpc/internal/client/subchannel_connections.h"
#include "rpc/metrics.h"
#include "transport/base/counter.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/mutex.h"
#include "transport/client/client_connection.h"
#include "transport/polling/ownership.h"

namespace verbena::internal {

// Connects when it is told to, spaces attempts that fail by a growing pause,
// and lets go of a connection that is of no use any more. Subchannel knows
// nothing of calls: see ServerSet, which asks for connection(), and if that is
// not usable, for WhyNot() and for an attempt.
//
// A subchannel with several addresses connects to the first that answers.
//
// Nobody waits for an attempt: it looks the addresses up (see Resolution), and
// goes on with those that it has found, one after the other, as the connections
// that it makes on the poller tell what became of them.
//
// All functions REQUIRE the poller's ownership, unless their comment says
// otherwise.
class Subchannel final : private transport::ClientConnection::Observer {
 public:
  using ClientConnection = transport::ClientConnection;

  // Hears of all changes. May call any function of the subchannel from inside.
  class Owner {
   public:
    // state() or connection() is another one.
    virtual void OnStateChanged(Subchannel* subchannel) = 0;
    // An attempt has ended: OK, or an error for calls that do not wait any
    // longer. That is UNAVAILABLE, unless another attempt can't go otherwise.
    virtual void OnAttemptEnded(Subchannel* subchannel,
                                const absl::Status& status) = 0;
    // Whether there is to be another attempt after a pause.
    virtual bool WantsConnection(Subchannel* subchannel) = 0;
    // After Drain(): the last call has ended.
    virtual void OnDrained(Subchannel* subchannel) = 0;

   protected:
    ~Owner() = default;
  };

  // The counters of all subchannels of a channel. Any thread reads.
  struct Counters {
    base::Counter connects;
    base::Counter failed_connects;
  };

  // `name` is what messages call it. `poller` drives the connection. `crowd` is
  // that of the process. All but the strings and options outlive this.
  Subchannel(std::string name, std::vector<std::string> addresses,
             const ChannelOptions& options,
             const transport::EndpointOptions& endpoint, SharedPoller* poller,
             BackoffCrowd* crowd, Counters* counters, Owner* owner);
  Subchannel(const Subchannel&) = delete;
  Subchannel& operator=(const Subchannel&) = delete;
  // REQUIRES: Shut() was called, and what was posted before that has run.
  ~Subchannel() = default;

  // Has the next attempt try `addresses`. Returns false, and does nothing, if
  // connection() leads to none of them, or an attempt to others is under way.
  bool Keeps(const std::vector<std::string>& addresses);

  ChannelState state() const {
    ownership_.AssertHeld();
    return state_;
  }
  // Tells what is connected, how, and why. Any thread.
  ChannelServerMetrics Describe() const;

  // The connection for the next call; null unless connected. Calls may be
  // started only if it is usable().
  ClientConnection* connection() {
    ownership_.AssertHeld();
    return connections_.Pick();
  }

  // The first connection; null unless connected.
  ClientConnection* current() const {
    ownership_.AssertHeld();
    return connections_.current();
  }

  // The memory of the first connection; of none if there is no connection.
  transport::BufferSource buffer_source() const {
    ownership_.AssertHeld();
    return state_ == ChannelState::kReady
               ? connections_.current()->buffer_source()
               : transport::BufferSource();
  }

  // Whether connection() goes by shared memory of this host.
  bool same_host() const {
    ownership_.AssertHeld();
    return connections_.current() != nullptr &&
           connections_.endpoint().is_cheap && !connections_.endpoint().is_rdma;
  }

  uint32_t open_calls() const {
    ownership_.AssertHeld();
    return connections_.open_calls();
  }

  // Returns the error for a call that can't wait for a connection; OK if it may
  // wait. A patient call waits although an attempt has failed. Any call does if
  // that was because the server is shutting down.
  absl::Status WhyNot(bool patient) const;
  // Returns the reason why the last attempt failed; OK if it did not.
  const absl::Status& connect_error() const {
    ownership_.AssertHeld();
    return failures_.error;
  }

  // Whether the last attempt failed because the server is shutting down, so
  // that its successor is expected.
  bool server_leaves() const {
    ownership_.AssertHeld();
    return connections_.outcome().server_leaves;
  }

  // Begins an attempt, now or when the pause after a failure is over. Does
  // nothing if there is a connection, or an attempt is under way.
  void Connect();

  // Begins no attempt any more, and closes the connections after their last
  // calls. The owner hears when that is done; maybe inside this function.
  void Drain();
  // Ends what is under way, and closes the connections, which fails their
  // calls. There are no attempts any more.
  void Shut();

 private:
  // Attempts that failed since the last connection.
  struct Failures {
    Backoff backoff;
    absl::Status error = absl::OkStatus();  // The last one's.
    bool in_crowd = false;                  // This counts in *crowd_.
    // Time before which there is no attempt.
    absl::Time retry_time = absl::InfinitePast();
  };
  // As the connection's observer.
  void OnConnected() override;
  void OnUnusable() override;

  void SetState(ChannelState state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  void OnTimer(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
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
  void EndAttempts() ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  void LeaveCrowd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);

  const std::string name_;
  const transport::EndpointOptions options_;
  const Fabric fabric_;
  const int max_paths_;  // As in ChannelOptions.
  const SubchannelConnections::Delays delays_;
  SharedPoller& poller_;
  transport::Ownership& ownership_;  // The poller's.
  BackoffCrowd* const crowd_;
  Counters* const counters_;
  Owner* const owner_;
  PollerTimer timer_;  // The end of the pause after a failed attempt.

  std::vector<std::string> addresses_ ABSL_GUARDED_BY(ownership_);
  SubchannelConnections connections_ ABSL_GUARDED_BY(ownership_);
  Resolution* resolution_ ABSL_GUARDED_BY(ownership_) = nullptr;
  Resolution* path_lookup_ ABSL_GUARDED_BY(ownership_) = nullptr;
  Failures failures_ ABSL_GUARDED_BY(ownership_);
  ChannelState state_ ABSL_GUARDED_BY(ownership_) = ChannelState::kIdle;
  // Drain() or Shut() was called.
  bool ended_ ABSL_GUARDED_BY(ownership_) = false;
  bool drains_ ABSL_GUARDED_BY(ownership_) = false;  // OnDrained() is to come.

  mutable base::Mutex mutex_;
  ChannelServerMetrics watched_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_SUBCHANNEL_H_
