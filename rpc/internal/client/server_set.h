// The servers of a channel, and which of them a call goes to.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_SERVER_SET_H_
#define VERBENA_RPC_INTERNAL_CLIENT_SERVER_SET_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rpc/balancer.h"
#include "rpc/buffer.h"
#include "rpc/channel_options.h"
#include "rpc/channel_state.h"
#include "rpc/internal/client/backoff.h"
#include "rpc/internal/client/picked_server.h"
#include "rpc/internal/client/poller_timer.h"
#include "rpc/internal/client/resolver_link.h"
#include "rpc/internal/client/service_server.h"
#include "rpc/internal/client/shared_buffer_source.h"
#include "rpc/internal/client/shared_poller.h"
#include "rpc/internal/client/subchannel.h"
#include "rpc/internal/service/service_config.h"
#include "rpc/metrics.h"
#include "rpc/resolver.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/mutex.h"
#include "transport/client/client_connection.h"
#include "transport/polling/ownership.h"
#include "transport/polling/task.h"

namespace verbena::internal {

// Follows a target: has a subchannel to each of its servers, and a policy that
// spreads the calls over those that are connected. Knows nothing of calls but
// what a Balancer is told.
//
// With the policy pick_first there is one subchannel, which has all addresses.
// So it is if the target is an address. Then connection() is all that a call
// costs here.
//
// Functions are for any thread, unless they stand under a line that says
// otherwise.
class ServerSet final : private Subchannel::Owner {
 public:
  using ClientConnection = transport::ClientConnection;

  // Hears of changes, with the poller's ownership held.
  class Observer {
   public:
    // A call that waits may find a connection now.
    virtual void OnReady() = 0;
    // There is no connection, and will be none soon: an error for calls that do
    // not wait any longer. UNAVAILABLE, unless that can't change.
    virtual void OnUnavailable(const absl::Status& status) = 0;
    // Whether a call waits for a connection.
    virtual bool AnyWaiting() const = 0;

   protected:
    ~Observer() = default;
  };

  // `endpoint` is an error if the options are not valid: then there is never an
  // attempt. `poller` drives the connections. `crowd` is that of the process.
  // All outlive this.
  ServerSet(std::string target, const ChannelOptions& options,
            const absl::StatusOr<transport::EndpointOptions>& endpoint,
            SharedPoller* poller, BackoffCrowd* crowd, Observer* observer);
  ServerSet(const ServerSet&) = delete;
  ServerSet& operator=(const ServerSet&) = delete;
  // REQUIRES: Shut() was called, and what was posted before that has run.
  ~ServerSet();

  const std::string& target() const { return target_; }
  // `try_to_connect` makes a channel connect that is idle, or that has failed
  // and has paused for long enough.
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

  // --- With the poller's ownership held ---

  // Returns the connection for a call; null if no server is connected. Calls
  // may be started only if it is usable().
  Picked Pick(const char* method, const Metadata& metadata) {
    ownership_.AssertHeld();
    used_ = true;
    return only_ != nullptr ? Picked{only_->connection()}
                            : PickAmong({method, &metadata}, {});
  }
  // As Pick(), but takes a server of `avoided` only where there is no other.
  Picked PickAnother(const char* method, const Metadata& metadata,
                     absl::Span<PickedServer* const> avoided) {
    ownership_.AssertHeld();
    return only_ != nullptr ? Picked{only_->connection()}
                            : PickAmong({method, &metadata}, avoided);
  }

  // Returns the error for a call that can't wait for a connection; OK if it may
  // wait. A patient call waits although attempts have failed.
  absl::Status WhyNot(bool patient) const;
  // Looks for servers, and connects to them, unless that is under way.
  void Connect();
  // Returns the reason why the last attempt failed, or the last lookup.
  absl::Status connect_error() const;
  // The service config in use; null if there is none.
  const std::shared_ptr<const ServiceConfig>& config() const {
    ownership_.AssertHeld();
    return config_;
  }

  // Ends what is under way, and closes the connections, which fails their
  // calls. From now on WhyNot() is `status`, and there are no attempts.
  void Shut(const absl::Status& status);

 private:
  // Servers, or with pick_first one that stands for all.
  using Servers = std::vector<std::unique_ptr<ServiceServer>>;

  // Runs a function of the set with the ownership held. Stands in a queue at
  // most once.
  class Later final : public transport::Task {
   public:
    Later(ServerSet* set, void (ServerSet::*what)()) : set_(set), what_(what) {}
    void Post();
    void Run() override;

   private:
    ServerSet* const set_;
    void (ServerSet::*const what_)();
    std::atomic<bool> posted_{false};
  };

  // As the owner of the subchannels.
  void OnStateChanged(Subchannel* subchannel) override;
  void OnAttemptEnded(Subchannel* subchannel,
                      const absl::Status& status) override;
  bool WantsConnection(Subchannel* subchannel) override;
  void OnDrained(Subchannel* subchannel) override;

  std::unique_ptr<ServiceServer> NewServer(ServerAddress address,
                                           std::vector<std::string> addresses);

  // Returns null if nobody knows the scheme.
  static std::shared_ptr<ResolverFactory> FindFactory(
      const std::string& scheme, const ChannelOptions& options);
  // Looks for the servers again after a failure.
  void OnResolveTimer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  // Closes all connections if there were no calls for long enough.
  void OnIdleTimer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  bool AnyOpenCalls() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  bool IsWaitedFor() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  void OnAnswer(absl::StatusOr<Resolved> answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  void OnResolveError(const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  absl::Status UseAnswer(Resolved answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  // Takes the service config `json` into use, and its policy.
  absl::Status UseConfig(const std::string& json)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  // Has one subchannel, which all calls take.
  void AddOnly(std::vector<std::string> addresses)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  void UseOne(const std::vector<ServerAddress>& servers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  void UseEach(std::vector<ServerAddress> servers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  void Add(std::unique_ptr<ServiceServer> server)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  void Remove(std::unique_ptr<ServiceServer> server)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  void RemoveAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);

  Picked PickAmong(const Balancer::Call& call,
                   absl::Span<PickedServer* const> avoided)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  // From now on calls go to none, and nobody hears of results, until
  // SetReady().
  void ClearReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  // From now on the balancer knows the servers of `ready`.
  void SetReady(std::vector<ServiceServer*> ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  // Tells the balancer, and the observer, which servers may have calls.
  void Refresh();
  // Destroys what was removed.
  void Reap();
  // The error of the servers, if none is connected and each has failed; OK
  // else.
  absl::Status AllFailed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  ChannelState StateOfAll() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);

  const std::string target_;
  const ChannelOptions options_;
  const transport::EndpointOptions endpoint_;
  SharedPoller& poller_;
  transport::Ownership& ownership_;  // The poller's.
  BackoffCrowd* const crowd_;
  Observer& observer_;
  const uint64_t seed_;
  const std::optional<Target> parsed_;        // If it has the form of a URI.
  std::shared_ptr<ResolverFactory> factory_;  // Null for an address.
  Later ask_{this, &ServerSet::Connect};
  Later refresh_{this, &ServerSet::Refresh};
  Later reap_{this, &ServerSet::Reap};
  // The end of the pause after a lookup that has failed.
  PollerTimer resolve_timer_;
  PollerTimer idle_timer_;  // Set while the channel is not idle.

  // The subchannel that all calls take; null if there are several, or none.
  Subchannel* only_ ABSL_GUARDED_BY(ownership_) = nullptr;
  // There was a call since idle_timer_ was set.
  bool used_ ABSL_GUARDED_BY(ownership_) = false;
  std::unique_ptr<Balancer> balancer_ ABSL_GUARDED_BY(ownership_);
  // Those that the balancer knows.
  std::vector<ServiceServer*> ready_ ABSL_GUARDED_BY(ownership_);
  ResolverLink* resolver_ ABSL_GUARDED_BY(ownership_) = nullptr;
  // Somebody has wanted a connection before there was a server.
  bool wanted_ ABSL_GUARDED_BY(ownership_) = false;
  // The last lookup's; OK if it has worked, or there was none.
  absl::Status resolve_error_ ABSL_GUARDED_BY(ownership_);
  Backoff resolve_backoff_ ABSL_GUARDED_BY(ownership_);
  std::shared_ptr<const ServiceConfig> config_ ABSL_GUARDED_BY(ownership_);
  // The texts of which config_ and balancer_ were made.
  std::string config_json_ ABSL_GUARDED_BY(ownership_);
  std::string policy_ ABSL_GUARDED_BY(ownership_);
  Servers leaving_ ABSL_GUARDED_BY(ownership_);  // They have calls.
  Servers gone_ ABSL_GUARDED_BY(ownership_);     // For Reap().
  Subchannel::Counters counters_;
  SharedBufferSource buffers_;

  mutable base::Mutex mutex_;
  base::CondVar state_changed_;
  // Written with the ownership held as well, so its holder needs no lock to
  // read them.
  Servers servers_;
  ChannelState state_ = ChannelState::kIdle;
  // Why there will be no attempts; OK if there may be some.
  absl::Status refusal_;
  // The last failure can't be mended by another attempt.
  bool hopeless_ ABSL_GUARDED_BY(mutex_) = false;
  int watchers_ ABSL_GUARDED_BY(mutex_) = 0;  // Threads in WaitForConnected().
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_SERVER_SET_H_
