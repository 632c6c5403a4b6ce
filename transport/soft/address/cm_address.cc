#include "transport/soft/address/cm_address.h"

#include <ifaddrs.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "transport/soft/base/ephemeral_port.h"
#include "transport/soft/base/foreign_fd.h"
#include "transport/soft/base/unix_name.h"

namespace verbena::soft {
namespace {

using base::SocketAddress;

constexpr absl::string_view kPrefix = "verbena-soft/";

// See ReachAllPeersByNetwork().
std::atomic<bool> all_by_network{false};

// Ends the name of a wildcard IPv6 listener that does not also serve IPv4.
constexpr absl::string_view kIpv6OnlySuffix = "/v6only";

// The inverse of AbstractName(), for a name without its leading zero byte and
// with or without kIpv6OnlySuffix. Anybody may have chosen the name, so no part
// of it may reach a name server: only an address in digits is accepted.
SocketAddress FromAbstractName(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, kPrefix)) return SocketAddress();
  absl::ConsumeSuffix(&name, kIpv6OnlySuffix);
  const auto address = SocketAddress::ParseNumeric(name);
  return address.ok() ? *address : SocketAddress();
}

// Whether a socket bound to `theirs` takes connections that one bound to `ours`
// would get as well.
bool Overlaps(const SocketAddress& ours, bool ours_ipv6_only,
              const SocketAddress& theirs, bool theirs_ipv6_only) {
  if (ours.port() != theirs.port()) return false;
  if (ours.family() == theirs.family()) {
    return ours.IsAny() || theirs.IsAny() || ours == theirs;
  }
  if (ours.family() == AF_INET6) return ours.IsAny() && !ours_ipv6_only;
  return theirs.IsAny() && !theirs_ipv6_only;
}

// Whether a socket of another name overlaps with `address`. Looks through the
// names of all Unix sockets; where /proc is not mounted it finds none.
bool OthersOverlap(const SocketAddress& address, bool ipv6_only,
                   absl::string_view own_name) {
  std::ifstream table("/proc/net/unix");
  std::string line;
  while (std::getline(table, line)) {
    const size_t at = line.find(absl::StrCat(" @", kPrefix));
    if (at == line.npos) continue;
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    // Num RefCount Protocol Flags Type St Inode Path. Connected sockets (St 03)
    // bear the names of listeners that may be long gone.
    if (fields.size() < 8 || fields[5] != "01") continue;
    const absl::string_view name = absl::string_view(line).substr(at + 2);
    if (name == own_name) continue;
    const SocketAddress other = FromAbstractName(name);
    if (!other.empty() && Overlaps(address, ipv6_only, other,
                                   absl::EndsWith(name, kIpv6OnlySuffix))) {
      return true;
    }
  }
  return false;
}

// Binds first and looks afterwards: of two sockets that overlap and are bound
// at the same time, at least one finds the other.
int BindSocket(const SocketAddress& address, BindPurpose purpose, int socket) {
  const bool ipv6_only =
      purpose == BindPurpose::kListenIpv6Only && address.family() == AF_INET6;
  std::string name = AbstractName(address);
  if (ipv6_only && address.IsAny()) absl::StrAppend(&name, kIpv6OnlySuffix);
  const UnixName unix_name(name);
  if (::bind(socket, unix_name.get(), unix_name.length()) != 0) return errno;
  if (purpose != BindPurpose::kConnect &&
      OthersOverlap(address, ipv6_only, absl::string_view(name).substr(1))) {
    return EADDRINUSE;
  }
  return 0;
}

int OpenSocket(base::UniqueFd& socket) {
  socket = base::UniqueFd(
      ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return socket.valid() ? 0 : errno;
}

int ConnectToName(int socket, const std::string& name) {
  const UnixName unix_name(name);
  while (::connect(socket, unix_name.get(), unix_name.length()) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// Puts a new socket of the same name in the place of one that was connected to
// the wrong listener.
int OpenAgain(base::UniqueFd& socket) {
  sockaddr_un name = {};
  socklen_t length = sizeof(name);
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&name),
                    &length) != 0) {
    return errno;
  }
  // Its name has to be free, and what the listener has sent is not wanted.
  CloseEmptied(std::move(socket));
  if (const int error = OpenSocket(socket); error != 0) return error;
  const bool named = length > offsetof(sockaddr_un, sun_path);
  return !named || ::bind(socket.get(),
                          reinterpret_cast<const sockaddr*>(&name), length) == 0
             ? 0
             : errno;
}

}  // namespace

bool IsLocalAddress(const SocketAddress& address) {
  if (address.IsLoopback()) return true;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return false;
  bool found = false;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    SocketAddress own = SocketAddress::FromSockaddr(entry->ifa_addr);
    if (own.empty()) continue;
    own.set_port(address.port());
    if (own == address) found = true;
  }
  ::freeifaddrs(list);
  return found;
}

bool IsReachedWithinHost(const SocketAddress& address) {
  return !ReachesAllPeersByNetwork() && IsLocalAddress(address);
}

// Relaxed: the switch orders no other memory.
void ReachAllPeersByNetwork() {
  all_by_network.store(true, std::memory_order_relaxed);
}

bool ReachesAllPeersByNetwork() {
  return all_by_network.load(std::memory_order_relaxed);
}

// An address of this host is reached from itself.
SocketAddress SourceFor(const SocketAddress& destination) {
  if (destination.IsLoopback()) {
    return SocketAddress::Loopback(destination.family(), 0);
  }
  SocketAddress source = destination;
  source.set_port(0);
  return source;
}

// Without a port, begins at a random one and goes on from there.
int OpenBoundSocket(SocketAddress& address, BindPurpose purpose,
                    base::UniqueFd& socket) {
  const bool choose = address.port() == 0;
  SocketAddress candidate = address;
  uint16_t port = choose ? RandomEphemeralPort() : address.port();
  for (int i = 0; i < (choose ? kEphemeralTries : 1); ++i) {
    candidate.set_port(port);
    // A bound socket cannot be bound again, so each try needs a new one.
    base::UniqueFd attempt;
    if (const int error = OpenSocket(attempt); error != 0) return error;
    const int error = BindSocket(candidate, purpose, attempt.get());
    if (error == 0) {
      socket = std::move(attempt);
      address = candidate;
      return 0;
    }
    if (error != EADDRINUSE) return error;
    port = NextEphemeralPort(port);
  }
  return EADDRINUSE;
}

// Tries the names of all sockets that may listen for the destination: the very
// address first, then the wildcards. The socket of a listener of another user
// is replaced before the next name is tried.
int ConnectSocket(const SocketAddress& destination, const PeerUsers& users,
                  base::UniqueFd& socket) {
  const std::string ipv6_wildcard =
      AbstractName(SocketAddress::Any(AF_INET6, destination.port()));
  std::vector<std::string> names = {AbstractName(destination)};
  if (destination.family() == AF_INET) {
    names.push_back(
        AbstractName(SocketAddress::Any(AF_INET, destination.port())));
    names.push_back(ipv6_wildcard);
  } else {
    names.push_back(ipv6_wildcard);
    names.push_back(absl::StrCat(ipv6_wildcard, kIpv6OnlySuffix));
  }
  int result = ECONNREFUSED;
  for (const std::string& name : names) {
    int error = ConnectToName(socket.get(), name);
    if (error == 0 && users.AllowsPeerOf(socket.get())) return 0;
    if (error == 0) {
      result = EACCES;
      error = OpenAgain(socket);
      if (error == 0) continue;
    }
    // A listener that takes no more connections may be another user's too, so
    // the other names are still tried.
    if (error == EAGAIN) result = EAGAIN;
    if (error != ECONNREFUSED && error != EAGAIN) return error;
  }
  return result;
}

// Only an abstract name counts, which begins with a zero byte.
SocketAddress PeerOf(int socket) {
  sockaddr_un address = {};
  socklen_t length = sizeof(address);
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &length) !=
          0 ||
      length <= offsetof(sockaddr_un, sun_path) + 1 ||
      address.sun_path[0] != '\0') {
    return SocketAddress();
  }
  return FromAbstractName(absl::string_view(
      address.sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1));
}

std::string AbstractName(const SocketAddress& address) {
  return absl::StrCat(absl::string_view("\0", 1), kPrefix, address.ToString());
}

}  // namespace verbena::soft
