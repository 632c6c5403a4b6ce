// Finds servers by DNS, for targets such as "dns:///orders.example:7471".
//
//   verbena::ChannelOptions options;
//   options.resolvers.push_back(verbena::NewDnsResolvers());
//   auto channel =
//       verbena::CreateChannel("dns:///orders.example:7471", options);
//
// Forms of targets:
//
//   dns:///orders.example:7471           the A and AAAA records of a name
//   dns://10.0.0.53/orders.example:7471  the same from this DNS server
//   dns://10.0.0.53:5353/...             its port, if it is not 53
//   dns:///_orders._tcp.example          SRV records, which have the ports
//
// A target without a port asks for SRV records, and its name begins with an
// underscore. A DNS server is an IP address; IPv6 addresses stand in brackets.

#ifndef VERBENA_RPC_RESOLVERS_DNS_RESOLVER_H_
#define VERBENA_RPC_RESOLVERS_DNS_RESOLVER_H_

#include <memory>

#include "absl/time/time.h"
#include "rpc/resolver.h"

namespace verbena {

// When the resolvers of a factory look. With senseless values every target is
// refused with INVALID_ARGUMENT.
struct DnsOptions {
  // The least time from the start of a look that succeeds to the start of the
  // next one. A smaller value follows changes faster, and costs the DNS server
  // more questions. At least 1 ms, at most a day.
  absl::Duration min_interval = absl::Seconds(30);

  // The longest time that a look may take. A DNS server is asked three times:
  // a 24th of this passes until the second question, and the double until the
  // third. At least 24 ms, at most an hour.
  absl::Duration timeout = absl::Seconds(30);

  // The pause after a first failure, the factor by which it grows with each
  // further failure, and the longest pause. Each pause is up to 20 % longer or
  // shorter than that, so that clients do not ask all at once. A success begins
  // anew. At least 1 ms; at least 1; at most a day.
  absl::Duration first_backoff = absl::Seconds(1);
  double backoff_factor = 1.6;
  absl::Duration max_backoff = absl::Seconds(120);
};

// The most servers that an answer may have. Further ones are left out, and a
// warning is logged.
inline constexpr int kMaxDnsServers = 10'000;

// Makes the resolvers of the scheme "dns", for ChannelOptions::resolvers. All
// channels of a process may share one factory. Its resolvers share one thread,
// which starts with the first of them, and ends when the factory and all its
// resolvers are destroyed. Thread-safe. A resolver must not be destroyed inside
// of its OnResult.
//
// A resolver looks
// - at once;
// - again when the least TTL of the answer has passed, but at least
//   `min_interval` after the start of the look before;
// - after ResolveNow() as soon as `min_interval` allows. During a look and
//   during the pause after a failure, ResolveNow() changes nothing;
// - after a failure, when the pause has passed.
// At most 256 looks of a factory run at one time. The others wait.
//
// Without a DNS server in the target, a look asks as other programs of the host
// do: /etc/hosts and DNS in the order of /etc/nsswitch.conf, the servers and
// search domains of /etc/resolv.conf. These files are read at each look.
// Entries of /etc/hosts count as TTL 0. A DNS server in the target is asked for
// the name as it stands there, and nothing else is asked. A look starts with
// UDP, and repeats a question by TCP if the answer does not fit.
//
// The addresses of a name have the order of RFC 6724, and the weight 1. Of SRV
// records only those with the lowest priority count, in the order of the
// answer. Each address of an SRV target has the weight of the record, at least
// 1; if several records lead to one server, the sum of their weights. SRV
// targets without addresses are left out. If the look for an SRV target fails,
// the addresses of the answer before stay, and the next look comes after
// `min_interval`.
//
// OnResult gets each answer, changed or not, on the thread of the factory. The
// status of a look that fails is UNAVAILABLE, and says which name, the DNS
// server that was asked, the words of c-ares, and when the next look comes.
// Names that do not exist, names without addresses and services that are not
// offered (RFC 2782) are such failures, too.
//
// Create() returns INVALID_ARGUMENT for a target of another form, and
// UNAVAILABLE if the system has no thread or descriptor.
std::shared_ptr<ResolverFactory> NewDnsResolvers(
    const DnsOptions& options = {});

}  // namespace verbena

#endif  // VERBENA_RPC_RESOLVERS_DNS_RESOLVER_H_
