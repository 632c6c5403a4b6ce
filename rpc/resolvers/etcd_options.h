// How a resolver or a registration reaches etcd.

#ifndef VERBENA_RPC_RESOLVERS_ETCD_OPTIONS_H_
#define VERBENA_RPC_RESOLVERS_ETCD_OPTIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace verbena {

// Certificates and keys as PEM texts.
struct EtcdTls {
  // Empty: those that gRPC trusts by default.
  std::string ca_certificates = {};
  // The certificate and key of this client, if etcd asks for them.
  std::string certificate = {};
  std::string private_key = {};
};

struct EtcdOptions {
  // The members of the cluster, each "host:port" or "[ipv6]:port". They are
  // tried in turn, beginning with one at random. At least one, at most 100.
  std::vector<std::string> end_points = {"127.0.0.1:2379"};

  // Empty: without a user. If etcd has its authentication off, they are
  // ignored.
  std::string user = {};
  std::string password = {};

  // Nothing: without TLS, so that anybody on the way reads the password.
  std::optional<EtcdTls> tls = {};

  // The longest time that an end point may take to connect and answer. The next
  // one is tried then. At least 10 ms, at most an hour.
  absl::Duration request_timeout = absl::Seconds(2);

  // How often a resolver asks its end point whether it still belongs to the
  // majority of the cluster: a small read. An end point that is dead, stopped
  // or cut off without a sign is given up after `check_interval` and
  // `request_timeout`. At least 10 ms, at most a day.
  absl::Duration check_interval = absl::Seconds(5);

  // The pause after all end points have failed, the factor by which it grows
  // with each further round, and the longest pause. Each pause is up to 20 %
  // longer or shorter than that. At least 1 ms; 1 to 100; at most a day.
  absl::Duration first_backoff = absl::Milliseconds(200);
  double backoff_factor = 1.6;
  absl::Duration max_backoff = absl::Seconds(10);
};

}  // namespace verbena

#endif  // VERBENA_RPC_RESOLVERS_ETCD_OPTIONS_H_
