// Announces a server in etcd, for clients with targets such as
// "etcd:///services/orders".
//
//   verbena::EtcdAnnouncement announcement;
//   announcement.prefix = "services/orders";
//   announcement.addresses = {"10.0.0.7:7471"};
//   auto registration = verbena::EtcdRegistration::Start(announcement);
//   ...
//   (*registration)->Withdraw();  // No new calls come from now on.
//   server->Shutdown();

#ifndef VERBENA_RPC_RESOLVERS_ETCD_REGISTRATION_H_
#define VERBENA_RPC_RESOLVERS_ETCD_REGISTRATION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/resolver.h"
#include "rpc/resolvers/etcd_options.h"

namespace verbena {

namespace internal {
class EtcdLoop;
class EtcdRegistrar;
}  // namespace internal

// A server, as etcd_resolver.h has it.
struct EtcdAnnouncement {
  // The service: the path of the clients' targets.
  std::string prefix = {};

  // Where clients reach the server, each "host:port". Each gets the key
  // "prefix/address". At least one, at most 100.
  std::vector<std::string> addresses = {};

  // The facts about the server.
  uint32_t weight = 1;
  Locality locality = {};
  std::string version = {};
  std::map<std::string, std::string> metadata = {};

  // How long the keys stay when the process dies, or cannot reach etcd. A small
  // value costs etcd more: the lease is renewed three times in this time. etcd
  // may make it longer. Whole seconds; at least 1 s, at most a day.
  absl::Duration ttl = absl::Seconds(10);

  // Gets the status whenever it changes, on the thread of all resolvers and
  // registrations. Must not block, nor destroy the registration.
  std::function<void(const absl::Status&)> on_status = nullptr;
};

// Keeps a server in etcd as long as it lives. If the lease is lost, because
// etcd was away for longer than the TTL, the server is registered anew.
// Thread-safe.
class EtcdRegistration {
 public:
  // Begins to register. INVALID_ARGUMENT for senseless arguments, UNAVAILABLE
  // if the system has no thread. Does not wait for etcd: a server may start
  // while etcd is away.
  static absl::StatusOr<std::unique_ptr<EtcdRegistration>> Start(
      const EtcdAnnouncement& announcement, const EtcdOptions& options = {});

  EtcdRegistration(const EtcdRegistration&) = delete;
  EtcdRegistration& operator=(const EtcdRegistration&) = delete;
  // Withdraws for at most EtcdOptions::request_timeout.
  ~EtcdRegistration();

  // OK while the server is registered. UNAVAILABLE before the first success,
  // and with the words of the last end point while all end points fail: the
  // keys stay until the lease runs out then. CANCELLED after Withdraw().
  absl::Status status() const;

  // Waits until status() is OK, for at most `timeout`. Returns it.
  absl::Status Await(absl::Duration timeout) const;

  // Removes the server. Clients learn of it at once. Waits until etcd has done
  // it, but for at most `timeout`: then UNAVAILABLE says why. It is tried as
  // long as this object lives, and the keys stay until the lease runs out at
  // most. Does not wait if there is no lease.
  absl::Status Withdraw(absl::Duration timeout = absl::Seconds(2));

 private:
  EtcdRegistration(std::shared_ptr<internal::EtcdLoop> loop,
                   std::unique_ptr<internal::EtcdRegistrar> registrar,
                   absl::Duration timeout);

  const std::shared_ptr<internal::EtcdLoop> loop_;
  std::unique_ptr<internal::EtcdRegistrar> registrar_;
  const absl::Duration timeout_;
};

}  // namespace verbena

#endif  // VERBENA_RPC_RESOLVERS_ETCD_REGISTRATION_H_
