// Chooses the server of each call: the interface for policies of your own.
//
// A service config names the policy: {"loadBalancingConfig": [{"mine": {}}]}.
// ChannelOptions::balancers has those that the library does not have itself.

#ifndef VERBENA_RPC_BALANCER_H_
#define VERBENA_RPC_BALANCER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rpc/load_report.h"
#include "rpc/metadata.h"
#include "rpc/resolver.h"

namespace verbena {

// Chooses among the servers that are connected.
//
// The channel calls all functions with a lock held, from one thread at a time.
// They must not block, and must not make calls on the channel.
class Balancer {
 public:
  // A server that is connected. It belongs to the channel.
  class Server {
   public:
    virtual const ServerAddress& address() const = 0;
    // Calls that this channel has open there.
    virtual uint32_t open_calls() const = 0;
    // Whether the server is on this host, and reached by shared memory.
    virtual bool same_host() const { return false; }

    // For ChannelMetrics: whether the balancer keeps calls away for a while,
    // and the weight that it gives the server. Any thread may read.
    void set_ejected(bool ejected) {
      ejected_.store(ejected, std::memory_order_relaxed);
    }
    bool ejected() const { return ejected_.load(std::memory_order_relaxed); }
    void set_load_weight(double weight) {
      load_weight_.store(weight, std::memory_order_relaxed);
    }
    // 0: the balancer goes by ServerAddress::weight, or by no weight.
    double load_weight() const {
      return load_weight_.load(std::memory_order_relaxed);
    }

   protected:
    ~Server() = default;

   private:
    std::atomic<bool> ejected_{false};
    std::atomic<double> load_weight_{0};
  };

  // Facts of a call that has no server yet.
  struct Call {
    absl::string_view method;  // "helloworld.Greeter/SayHello"
    const Metadata* metadata;
  };

  // The end of a call, or of an attempt of one.
  struct Result {
    absl::StatusCode code = absl::StatusCode::kOk;
    // When it ended, and how long it took; zero for a stream, which ends when
    // its user likes.
    absl::Time time = {};
    absl::Duration latency = {};
    // The load that the server has reported with it; null if it has not.
    const LoadReport* load = nullptr;
  };

  virtual ~Balancer() = default;

  // The servers among which Pick() chooses from now on, in the order of their
  // addresses. The pointers are valid until the next SetServers().
  virtual void SetServers(absl::Span<Server* const> servers) = 0;

  // Returns the position of the call's server among those of SetServers(). Only
  // called if there are some. Part of each call: takes nanoseconds, and
  // allocates nothing.
  virtual size_t Pick(const Call& call) = 0;

  // Whether OnResult() is called. Always the same.
  virtual bool wants_results() const { return false; }
  // A call has ended at the server at `position`. Not for calls that the caller
  // has cancelled, or that no server has processed.
  virtual void OnResult(size_t /*position*/, const Result& /*result*/) {}
};

// Makes the balancers of a policy. Thread-safe. May be shared by any number of
// channels, which keep it alive.
class BalancerFactory {
 public:
  virtual ~BalancerFactory() = default;

  // The name in the service config.
  virtual absl::string_view policy() const = 0;

  // `config` is the JSON object beside the name. `seed` determines all random
  // values. An error makes the service config invalid.
  virtual absl::StatusOr<std::unique_ptr<Balancer>> Create(
      const std::string& config, uint64_t seed) = 0;
};

}  // namespace verbena

#endif  // VERBENA_RPC_BALANCER_H_
