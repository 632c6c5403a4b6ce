// Finds the servers of a name: the interface for registries of your own.
//
//   class MyRegistry : public verbena::ResolverFactory { ... };
//   verbena::ChannelOptions options;
//   options.resolvers.push_back(std::make_shared<MyRegistry>());
//   auto channel = verbena::CreateChannel("my-registry:///orders", options);

#ifndef VERBENA_RPC_RESOLVER_H_
#define VERBENA_RPC_RESOLVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/channel_options.h"

namespace verbena {

// A target in the form of a URI, "scheme://authority/path". The name of a
// service is in `path`, without the slash that begins it. "scheme:path" has an
// empty authority.
struct Target {
  std::string scheme;
  std::string authority = {};
  std::string path = {};

  // The target as it was given to CreateChannel().
  std::string text = {};
};

// A server that a resolver has found.
struct ServerAddress {
  // "host:port" or "[ipv6]:port". The host may be a name.
  std::string address;
  // The server's share of the calls, for balancers that look at it; at least 1.
  uint32_t weight = 1;
  Locality locality = {};
  // Further facts, for balancers of your own.
  std::map<std::string, std::string> attributes = {};

  friend bool operator==(const ServerAddress&, const ServerAddress&) = default;
};

// The answer of a resolver.
struct Resolved {
  // All servers of the service, each once. The order counts for pick_first.
  std::vector<ServerAddress> servers;
  // The service config in gRPC's JSON. Empty: ChannelOptions::service_config.
  std::string service_config;
};

// Follows one name, for one channel.
class Resolver {
 public:
  // Called with each answer, by any thread, but not by two at once. An error
  // takes nothing away: the channel keeps the last good answer. Not called
  // after the destructor has returned, which must not wait for a network
  // either. May be called inside of ResolverFactory::Create().
  using OnResult = std::function<void(absl::StatusOr<Resolved>)>;

  virtual ~Resolver() = default;

  // Asks for a look soon, because a server was lost, or a call waits. Most of
  // these wishes change nothing, so an implementation bounds how often it
  // looks. Any thread; must not block.
  virtual void ResolveNow() = 0;
};

// Makes the resolvers of a scheme. Thread-safe. May be shared by any number of
// channels, which keep it alive.
class ResolverFactory {
 public:
  virtual ~ResolverFactory() = default;

  // "dns" for targets that begin with "dns:". Lower case.
  virtual absl::string_view scheme() const = 0;

  // Makes a resolver, which begins to look at once. An error becomes the status
  // of the channel's calls; if it is UNAVAILABLE, this is called again later.
  // Called, like the destructor of what it returns, by a thread of the library
  // on which other tasks wait: it may read a file, but must not wait for a
  // network.
  virtual absl::StatusOr<std::unique_ptr<Resolver>> Create(
      const Target& target, Resolver::OnResult on_result) = 0;
};

}  // namespace verbena

#endif  // VERBENA_RPC_RESOLVER_H_
