// A look at DNS, from the first question to the list of servers.

#ifndef VERBENA_RPC_RESOLVERS_DNS_LOOKUP_H_
#define VERBENA_RPC_RESOLVERS_DNS_LOOKUP_H_

#include <ares.h>
#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rpc/resolver.h"
#include "rpc/resolvers/dns_target.h"
#include "transport/base/socket_address.h"

namespace verbena::internal {

// The addresses of hosts, by name; the ports are zero.
using DnsHosts = std::map<std::string, std::vector<base::SocketAddress>>;

struct DnsAnswer {
  // At most kMaxDnsServers, each once.
  std::vector<ServerAddress> servers;
  // The least of all records. Zero if the look has failed in part.
  absl::Duration ttl;
  // Made of `servers`: the `before` of the next look.
  DnsHosts hosts;
};

// Asks c-ares for a target. A look at SRV records asks for those first, and
// then for the addresses of their targets, a few at a time.
//
// Confined to one thread, which polls the sockets; no method waits for the
// network. The destructor gives up the questions that are open.
class DnsLookup {
 public:
  // Asks. `before` has the hosts of the last answer. All must outlive this. The
  // look ends as failed when `timeout` has passed.
  DnsLookup(const DnsTarget& target, const DnsHosts& before,
            absl::Duration timeout, absl::Time now);
  DnsLookup(const DnsLookup&) = delete;
  DnsLookup& operator=(const DnsLookup&) = delete;
  ~DnsLookup();

  // Appends the sockets, with the events to wait for.
  void AddSockets(std::vector<pollfd>& sockets) const;
  // When Process() is to be called although no socket is ready.
  absl::Time NextTime(absl::Time now) const;
  // Goes on. `sockets` are those that AddSockets() has appended, polled.
  void Process(absl::Span<const pollfd> sockets, absl::Time now);

  // Returns the end of the look once it has ended, nothing before. The error is
  // UNAVAILABLE, with the name, the DNS server, and the words of c-ares.
  std::optional<absl::StatusOr<DnsAnswer>> TakeResult();

 private:
  struct Host {
    DnsLookup* lookup;
    std::string name;
    // A status of c-ares; this one if no reply comes.
    int status = ARES_ETIMEOUT;
    absl::Duration ttl = absl::InfiniteDuration();
    std::vector<base::SocketAddress> addresses = {};
  };
  // A server is an address of hosts_[host] with that port.
  struct Record {
    size_t host;
    uint16_t port;
    uint32_t weight;
  };

  int Open(absl::Duration timeout);
  void Ask();
  static void OnSocket(void* self, int fd, int readable, int writable);
  static void OnSrvReply(void* self, int status, int timeouts,
                         unsigned char* bytes, int size);
  void TakeSrvReply(int status, absl::Span<const uint8_t> packet);
  // Starts questions for hosts as far as there may be more at one time, and
  // ends the look if all are done, or no more are of use.
  void AskForHosts();
  static void OnHostReply(void* host, int status, int timeouts,
                          ares_addrinfo* result);
  void TakeAddresses(const ares_addrinfo& result, Host& host);
  // Adds an address, unless there are too many.
  void Keep(const base::SocketAddress& address, Host& host);
  // Gives hosts whose question has failed the addresses that they had before.
  void KeepWhatWasBefore();
  void Finish();
  void Fail(absl::string_view why);
  std::vector<ServerAddress> Servers() const;
  // The DNS servers that the channel asks, with their ports.
  std::vector<std::string> ServersAsked() const;

  const DnsTarget& target_;
  const DnsHosts& before_;
  const absl::Time deadline_;
  ares_channel channel_ = nullptr;  // Null if it could not be made.
  std::map<int, int16_t> sockets_;  // With the events for poll().

  std::vector<Record> records_;
  std::deque<Host> hosts_;  // Does not move what c-ares has pointers to.
  absl::Duration srv_ttl_ = absl::InfiniteDuration();
  size_t asked_ = 0;      // Hosts whose question was started.
  size_t open_ = 0;       // Hosts of them that have no reply yet.
  size_t addresses_ = 0;  // The sum over all hosts.
  bool asking_ = false;   // AskForHosts() runs.
  bool cut_ = false;      // There are more servers than an answer may have.

  std::optional<absl::StatusOr<DnsAnswer>> result_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_RESOLVERS_DNS_LOOKUP_H_
