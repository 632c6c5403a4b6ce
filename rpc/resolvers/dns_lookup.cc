#include "rpc/resolvers/dns_lookup.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/resolvers/dns_resolver.h"
#include "rpc/resolvers/srv_records.h"
#include "transport/base/log.h"

namespace verbena::internal {
namespace {

// By <arpa/nameser.h>, which names them differently from system to system.
constexpr int kInternetClass = 1;
constexpr int kSrvType = 33;
constexpr int kDnsPort = 53;

// The first try of a question takes a part, the second two, the third four.
// Three DNS servers of a host have their turns within 21 parts, so that the
// addresses of IPv4 arrive in time even if nobody answers for IPv6.
constexpr int kTries = 3;
constexpr int kPartsOfTimeout = 24;

// SRV targets that are looked up at one time: a DNS server may drop more.
constexpr size_t kHostsAtOnce = 16;

// DNS servers that an error names.
constexpr size_t kServersNamed = 3;

// Whether DNS has answered that there is nothing.
bool IsAbsent(int status) {
  return status == ARES_ENOTFOUND || status == ARES_ENODATA;
}

std::string Explain(int status, bool srv) {
  const char* const words = ares_strerror(status);
  switch (status) {
    case ARES_ENOTFOUND:
      return absl::StrCat("there is no such name: NXDOMAIN, ", words);
    case ARES_ENODATA:
      return absl::StrCat("the name has no ", srv ? "SRV records" : "addresses",
                          ": ", words);
    default:
      return words;
  }
}

}  // namespace

DnsLookup::DnsLookup(const DnsTarget& target, const DnsHosts& before,
                     absl::Duration timeout, absl::Time now)
    : target_(target), before_(before), deadline_(now + timeout) {
  const int status = Open(timeout);
  if (status == ARES_SUCCESS) {
    Ask();
  } else {
    Fail(ares_strerror(status));
  }
}

DnsLookup::~DnsLookup() {
  // Calls back for each open question.
  if (channel_ != nullptr) ares_destroy(channel_);
}

// Makes a channel for this look alone: c-ares can give up only all questions of
// a channel, and reads the host's configuration when it makes one.
//
// If a DNS server refuses a question or fails, c-ares asks the next one. With
// only one it would ask the same again at once, and then say that it has found
// none. The flag NOCHECKRESP makes the refusal the answer.
int DnsLookup::Open(absl::Duration timeout) {
  static const int library = ares_library_init(ARES_LIB_INIT_ALL);
  if (library != ARES_SUCCESS) return library;
  ares_options options = {};
  options.timeout = static_cast<int>(std::max<int64_t>(
      1, absl::ToInt64Milliseconds(timeout) / kPartsOfTimeout));
  options.tries = kTries;
  options.sock_state_cb = OnSocket;
  options.sock_state_cb_data = this;
  int mask = ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB;
  char only_dns[] = "b";
  if (!target_.server.empty()) {
    // The host's files and search domains say nothing about another server.
    options.lookups = only_dns;
    options.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOCHECKRESP;
    mask |= ARES_OPT_LOOKUPS | ARES_OPT_FLAGS;
  }
  int status = ares_init_options(&channel_, &options, mask);
  if (status == ARES_SUCCESS && !target_.server.empty()) {
    return ares_set_servers_ports_csv(channel_, target_.server.c_str());
  }
  if (status == ARES_SUCCESS && ServersAsked().size() == 1) {
    ares_destroy(channel_);
    options.flags = ARES_FLAG_NOCHECKRESP;
    status = ares_init_options(&channel_, &options, mask | ARES_OPT_FLAGS);
  }
  if (status != ARES_SUCCESS) channel_ = nullptr;
  return status;
}

void DnsLookup::Ask() {
  if (target_.srv()) {
    ares_query(channel_, target_.name.c_str(), kInternetClass, kSrvType,
               OnSrvReply, this);
    return;
  }
  hosts_.push_back({.lookup = this, .name = target_.name});
  records_.push_back({.host = 0, .port = target_.port, .weight = 1});
  AskForHosts();
}

void DnsLookup::OnSocket(void* self, int fd, int readable, int writable) {
  std::map<int, int16_t>& sockets = static_cast<DnsLookup*>(self)->sockets_;
  if (readable == 0 && writable == 0) {
    sockets.erase(fd);
  } else {
    sockets[fd] = static_cast<int16_t>((readable != 0 ? POLLIN : 0) |
                                       (writable != 0 ? POLLOUT : 0));
  }
}

void DnsLookup::AddSockets(std::vector<pollfd>& sockets) const {
  for (const auto& [fd, events] : sockets_) {
    sockets.push_back({.fd = fd, .events = events, .revents = 0});
  }
}

absl::Time DnsLookup::NextTime(absl::Time now) const {
  if (result_.has_value()) return absl::InfinitePast();
  timeval wait;
  if (ares_timeout(channel_, nullptr, &wait) == nullptr) return deadline_;
  // c-ares rounds down to milliseconds, and nothing is to be done before.
  return std::min(
      deadline_, now + absl::DurationFromTimeval(wait) + absl::Milliseconds(1));
}

void DnsLookup::Process(absl::Span<const pollfd> sockets, absl::Time now) {
  if (result_.has_value()) return;
  for (const pollfd& each : sockets) {
    if (each.revents == 0) continue;
    // An error of a socket shows when it is used.
    const bool error = (each.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
    const bool readable = error || (each.revents & POLLIN) != 0;
    const bool writable = error || (each.revents & POLLOUT) != 0;
    ares_process_fd(channel_, readable ? each.fd : ARES_SOCKET_BAD,
                    writable ? each.fd : ARES_SOCKET_BAD);
  }
  // Repeats the questions whose time has passed.
  ares_process_fd(channel_, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
  if (result_.has_value() || now < deadline_) return;
  if (hosts_.empty()) {
    Fail(Explain(ARES_ETIMEOUT, /*srv=*/true));
  } else {
    Finish();
  }
}

std::optional<absl::StatusOr<DnsAnswer>> DnsLookup::TakeResult() {
  return std::move(result_);
}

void DnsLookup::OnSrvReply(void* self, int status, int /*timeouts*/,
                           unsigned char* bytes, int size) {
  if (status == ARES_EDESTRUCTION || status == ARES_ECANCELLED) return;
  static_cast<DnsLookup*>(self)->TakeSrvReply(
      status, absl::MakeConstSpan(bytes, bytes == nullptr ? 0 : size));
}

void DnsLookup::TakeSrvReply(int status, absl::Span<const uint8_t> packet) {
  SrvRecords srv;
  if (status == ARES_SUCCESS) status = ReadSrvRecords(packet, srv);
  if (status != ARES_SUCCESS) {
    Fail(Explain(status, /*srv=*/true));
    return;
  }
  if (srv.records.empty()) {
    Fail("the service is not offered: its SRV record has the target \".\"");
    return;
  }
  srv_ttl_ = srv.ttl;
  std::unordered_map<std::string, size_t> hosts;
  for (const SrvRecord& each : srv.records) {
    const auto [host, is_new] = hosts.emplace(each.host, hosts_.size());
    if (is_new) hosts_.push_back({.lookup = this, .name = each.host});
    records_.push_back({.host = host->second,
                        .port = each.port,
                        .weight = std::max<uint32_t>(1, each.weight)});
  }
  AskForHosts();
}

void DnsLookup::AskForHosts() {
  // A reply without the network comes while its question is started. The loop
  // below goes on then, because a recursion would be as deep as hosts are many.
  if (asking_) return;
  asking_ = true;
  const ares_addrinfo_hints hints = {.ai_flags = 0,
                                     .ai_family = AF_UNSPEC,
                                     .ai_socktype = SOCK_STREAM,
                                     .ai_protocol = 0};
  while (open_ < kHostsAtOnce && asked_ < hosts_.size() && !cut_) {
    Host& host = hosts_[asked_++];
    ++open_;
    ares_getaddrinfo(channel_, host.name.c_str(), /*service=*/nullptr, &hints,
                     OnHostReply, &host);
  }
  asking_ = false;
  if (open_ == 0 || cut_) Finish();
}

void DnsLookup::OnHostReply(void* host, int status, int /*timeouts*/,
                            ares_addrinfo* result) {
  Host& self = *static_cast<Host*>(host);
  if (status != ARES_EDESTRUCTION && status != ARES_ECANCELLED &&
      !self.lookup->result_.has_value()) {
    self.status = status;
    if (status == ARES_SUCCESS) self.lookup->TakeAddresses(*result, self);
    --self.lookup->open_;
    self.lookup->AskForHosts();
  }
  if (result != nullptr) ares_freeaddrinfo(result);
}

void DnsLookup::TakeAddresses(const ares_addrinfo& result, Host& host) {
  std::unordered_set<std::string> known;
  for (const ares_addrinfo_cname* each = result.cnames; each != nullptr;
       each = each->next) {
    host.ttl = std::min(host.ttl, absl::Seconds(std::max(0, each->ttl)));
  }
  for (const ares_addrinfo_node* each = result.nodes; each != nullptr;
       each = each->ai_next) {
    host.ttl = std::min(host.ttl, absl::Seconds(std::max(0, each->ai_ttl)));
    auto address = base::SocketAddress::FromSockaddr(each->ai_addr);
    if (address.empty()) continue;
    address.set_port(0);
    if (!known.insert(address.HostString()).second) continue;
    Keep(address, host);
  }
  if (host.addresses.empty()) host.status = ARES_ENODATA;
}

void DnsLookup::Keep(const base::SocketAddress& address, Host& host) {
  if (addresses_ == size_t{kMaxDnsServers}) {
    cut_ = true;
    return;
  }
  ++addresses_;
  host.addresses.push_back(address);
}

void DnsLookup::KeepWhatWasBefore() {
  size_t failed = 0;
  const Host* first = nullptr;
  for (Host& host : hosts_) {
    if (host.status == ARES_SUCCESS || IsAbsent(host.status)) continue;
    if (failed++ == 0) first = &host;
    const auto before = before_.find(host.name);
    if (before == before_.end()) continue;
    for (const base::SocketAddress& each : before->second) Keep(each, host);
  }
  if (failed == 0) return;
  srv_ttl_ = absl::ZeroDuration();
  base::Log::OfProcess().Write(
      LogSeverity::kWarning,
      absl::StrCat("DNS: ", failed, " of ", hosts_.size(), " SRV targets of ",
                   target_.name, " could not be looked up, among them ",
                   first->name, ": ", Explain(first->status, /*srv=*/false)));
}

void DnsLookup::Finish() {
  const auto found = std::find_if(
      hosts_.begin(), hosts_.end(),
      [](const Host& host) { return host.status == ARES_SUCCESS; });
  if (found == hosts_.end()) {
    const Host& host = hosts_.front();
    const std::string why = Explain(host.status, /*srv=*/false);
    Fail(target_.srv() ? absl::StrCat("its SRV target ", host.name, ": ", why)
                       : why);
    return;
  }
  // An answer that is cut does without the hosts that are not done.
  if (target_.srv() && !cut_) KeepWhatWasBefore();
  DnsAnswer answer;
  answer.servers = Servers();
  answer.ttl = srv_ttl_;
  for (Host& host : hosts_) {
    answer.ttl = std::min(answer.ttl, host.ttl);
    answer.hosts[host.name] = std::move(host.addresses);
  }
  result_ = std::move(answer);
}

std::vector<ServerAddress> DnsLookup::Servers() const {
  std::vector<ServerAddress> servers;
  std::unordered_map<std::string, size_t> places;
  bool cut = cut_;
  for (const Record& record : records_) {
    for (base::SocketAddress address : hosts_[record.host].addresses) {
      address.set_port(record.port);
      const std::string text = address.ToString();
      if (const auto place = places.find(text); place != places.end()) {
        servers[place->second].weight += record.weight;
        continue;
      }
      if (servers.size() == size_t{kMaxDnsServers}) {
        cut = true;
        break;
      }
      places.emplace(text, servers.size());
      servers.push_back({.address = text, .weight = record.weight});
    }
  }
  if (cut) {
    base::Log::OfProcess().Write(
        LogSeverity::kWarning,
        absl::StrCat("DNS: ", target_.name, " has more than ", kMaxDnsServers,
                     " servers; the others are left out"));
  }
  return servers;
}

void DnsLookup::Fail(absl::string_view why) {
  std::vector<std::string> servers = ServersAsked();
  if (servers.size() > kServersNamed) servers.resize(kServersNamed);
  result_ = absl::UnavailableError(absl::StrCat(
      "cannot look up ", target_.name,
      target_.srv() ? " (SRV)" : " (A and AAAA)", servers.empty() ? "" : " at ",
      absl::StrJoin(servers, ", "), ": ", why));
}

std::vector<std::string> DnsLookup::ServersAsked() const {
  std::vector<std::string> servers;
  ares_addr_port_node* nodes = nullptr;
  if (channel_ == nullptr ||
      ares_get_servers_ports(channel_, &nodes) != ARES_SUCCESS) {
    return servers;
  }
  for (const ares_addr_port_node* each = nodes; each != nullptr;
       each = each->next) {
    auto address = base::SocketAddress::Any(
        each->family,
        static_cast<uint16_t>(each->udp_port == 0 ? kDnsPort : each->udp_port));
    if (each->family == AF_INET) {
      reinterpret_cast<sockaddr_in*>(address.mutable_get())->sin_addr =
          each->addr.addr4;
    } else {
      std::memcpy(
          &reinterpret_cast<sockaddr_in6*>(address.mutable_get())->sin6_addr,
          &each->addr.addr6, sizeof(each->addr.addr6));
    }
    servers.push_back(address.ToString());
  }
  if (nodes != nullptr) ares_free_data(nodes);
  return servers;
}

}  // namespace verbena::internal
