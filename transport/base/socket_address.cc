#include "transport/base/socket_address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/status_macros.h"

namespace verbena::base {
namespace {

struct HostAndPort {
  std::string host;
  uint16_t port = 0;
};

absl::Status BadAddress(absl::string_view text, absl::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrCat("address \"", text, "\": ", problem,
                   "; an address is host:port, such as 10.0.0.7:50051, "
                   "[::1]:50051 or host.example:50051"));
}

// Whether the scope of such an address is an interface, which then has a name.
bool IsLinkLocal(const in6_addr& address) {
  return IN6_IS_ADDR_LINKLOCAL(&address) || IN6_IS_ADDR_MC_LINKLOCAL(&address);
}

// Finds the colon between host and port first, then checks each of the two, so
// that every error names the part that is wrong.
absl::StatusOr<HostAndPort> Split(absl::string_view text) {
  absl::string_view host;
  absl::string_view port;
  if (!text.empty() && text.front() == '[') {
    const size_t close = text.find(']');
    if (close == text.npos) return BadAddress(text, "'[' without ']'");
    host = text.substr(1, close - 1);
    absl::string_view rest = text.substr(close + 1);
    if (rest.empty() || rest.front() != ':') {
      return BadAddress(text, "the port is missing");
    }
    port = rest.substr(1);
  } else {
    const size_t colon = text.rfind(':');
    if (colon == text.npos) return BadAddress(text, "the port is missing");
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    // Before the colons of the host are counted, because a scheme has one too.
    if (absl::StrContains(text, "//")) {
      return BadAddress(text, "it has a scheme");
    }
    if (host.find(':') != host.npos) {
      return BadAddress(text, "an IPv6 address must stand in brackets");
    }
  }
  if (host.empty()) return BadAddress(text, "the host is missing");
  for (const char c : host) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) {
      return BadAddress(text, "the host has a blank or unprintable character");
    }
  }
  // SimpleAtoi() would accept a sign, and blanks around the number.
  for (const char c : port) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) {
      return BadAddress(text, "the port is not a number");
    }
  }
  uint32_t number;
  if (port.empty()) return BadAddress(text, "the port is missing");
  if (!absl::SimpleAtoi(port, &number) || number > UINT16_MAX) {
    return BadAddress(text, "the port is above 65535");
  }
  HostAndPort result;
  result.host.assign(host.data(), host.size());
  result.port = static_cast<uint16_t>(number);
  return result;
}

// Names the host in the message, and chooses the code by whether another
// attempt may succeed.
absl::Status ResolverError(absl::string_view host, int error) {
  const std::string message = absl::StrCat(
      "cannot resolve host \"", host, "\": ",
      error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error));
  switch (error) {
    case EAI_NONAME:
    case EAI_NODATA:
      return absl::NotFoundError(message);
    case EAI_MEMORY:
      return absl::ResourceExhaustedError(message);
    // Other failures may pass, for instance when the name server answers again,
    // so the caller may retry.
    default:
      return absl::UnavailableError(message);
  }
}

}  // namespace

absl::StatusOr<std::vector<SocketAddress>> SocketAddress::Resolve(
    absl::string_view text) {
  return Resolve(text, 0);
}

// Resolves the host, and gives each result the port. Fails if no result is of
// IPv4 or IPv6.
absl::StatusOr<std::vector<SocketAddress>> SocketAddress::Resolve(
    absl::string_view text, int resolver_flags) {
  ASSIGN_OR_RETURN(const HostAndPort parts, Split(text));
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_flags = resolver_flags;
  // Without it there is a result for each protocol that an address serves.
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  // The port is not passed: Split() has checked it, and it is equal in all
  // results.
  const int error = ::getaddrinfo(parts.host.c_str(), nullptr, &hints, &list);
  if (error != 0) return ResolverError(parts.host, error);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* info = list; info != nullptr; info = info->ai_next) {
    SocketAddress address = FromSockaddr(info->ai_addr);
    // A family that is neither IPv4 nor IPv6.
    if (address.empty()) continue;
    address.set_port(parts.port);
    addresses.push_back(address);
  }
  ::freeaddrinfo(list);
  // Every result was of another family.
  if (addresses.empty()) return ResolverError(parts.host, EAI_NODATA);
  return addresses;
}

absl::StatusOr<SocketAddress> SocketAddress::Parse(absl::string_view text) {
  ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses, Resolve(text));
  for (const SocketAddress& address : addresses) {
    if (address.family() == AF_INET) return address;
  }
  return addresses.front();
}

absl::Status SocketAddress::CheckForm(absl::string_view text) {
  return Split(text).status();
}

// AI_NUMERICHOST keeps getaddrinfo() from asking a name server.
absl::StatusOr<SocketAddress> SocketAddress::ParseNumeric(
    absl::string_view text) {
  ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses,
                   Resolve(text, AI_NUMERICHOST));
  return addresses.front();
}

// Copies only the bytes of the family, because `address` may end behind them.
SocketAddress SocketAddress::FromSockaddr(const sockaddr* address) {
  SocketAddress result;
  if (address == nullptr) return result;
  if (address->sa_family == AF_INET) {
    std::memcpy(&result.storage_.v4, address, sizeof(sockaddr_in));
    std::memset(result.storage_.v4.sin_zero, 0,
                sizeof(result.storage_.v4.sin_zero));
  } else if (address->sa_family == AF_INET6) {
    std::memcpy(&result.storage_.v6, address, sizeof(sockaddr_in6));
  }
  return result;
}

SocketAddress SocketAddress::Any(int family, uint16_t port) {
  CHECK(family == AF_INET || family == AF_INET6) << family;
  SocketAddress result;
  result.storage_.generic.sa_family = static_cast<sa_family_t>(family);
  result.set_port(port);  // The wildcard addresses of both are all zero.
  return result;
}

SocketAddress SocketAddress::Loopback(int family, uint16_t port) {
  SocketAddress result = Any(family, port);
  if (family == AF_INET) {
    result.storage_.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else {
    result.storage_.v6.sin6_addr = in6addr_loopback;
  }
  return result;
}

uint16_t SocketAddress::port() const {
  if (family() == AF_INET) return ntohs(storage_.v4.sin_port);
  if (family() == AF_INET6) return ntohs(storage_.v6.sin6_port);
  return 0;
}

void SocketAddress::set_port(uint16_t port) {
  CHECK(!empty());
  if (family() == AF_INET) {
    storage_.v4.sin_port = htons(port);
  } else {
    storage_.v6.sin6_port = htons(port);
  }
}

bool SocketAddress::IsAny() const {
  if (family() == AF_INET) return storage_.v4.sin_addr.s_addr == INADDR_ANY;
  return family() == AF_INET6 &&
         IN6_IS_ADDR_UNSPECIFIED(&storage_.v6.sin6_addr);
}

bool SocketAddress::IsLoopback() const {
  if (family() == AF_INET) {
    return ntohl(storage_.v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&storage_.v6.sin6_addr);
}

std::string SocketAddress::ToString() const {
  if (empty()) return "unknown";
  if (family() == AF_INET) return absl::StrCat(HostString(), ":", port());
  return absl::StrCat("[", HostString(), "]:", port());
}

bool SocketAddress::SharesNetworkWith(const SocketAddress& other) const {
  if (family() != other.family()) return false;
  if (family() == AF_INET) {
    return storage_.v4.sin_addr.s_addr == other.storage_.v4.sin_addr.s_addr;
  }
  const in6_addr& address = storage_.v6.sin6_addr;
  // IPv4-mapped addresses agree in the first half whatever network they are of,
  // so all of the address counts.
  const size_t bytes =
      IN6_IS_ADDR_V4MAPPED(&address) ? sizeof(address) : sizeof(address) / 2;
  return std::memcmp(&address, &other.storage_.v6.sin6_addr, bytes) == 0;
}

// Prints the shortest form, which inet_ntop() gives, and the interface behind
// '%' if the address is of one link.
std::string SocketAddress::HostString() const {
  char text[INET6_ADDRSTRLEN];
  if (family() == AF_INET) {
    return ::inet_ntop(AF_INET, &storage_.v4.sin_addr, text, sizeof(text));
  }
  if (family() != AF_INET6) return "unknown";
  std::string host =
      ::inet_ntop(AF_INET6, &storage_.v6.sin6_addr, text, sizeof(text));
  // A link-local address means nothing without its interface. That of others
  // is read as a number only.
  if (storage_.v6.sin6_scope_id != 0) {
    char name[IF_NAMESIZE];
    if (IsLinkLocal(storage_.v6.sin6_addr) &&
        ::if_indextoname(storage_.v6.sin6_scope_id, name) != nullptr) {
      absl::StrAppend(&host, "%", name);
    } else {
      absl::StrAppend(&host, "%", storage_.v6.sin6_scope_id);
    }
  }
  return host;
}

socklen_t SocketAddress::size() const {
  if (family() == AF_INET) return sizeof(sockaddr_in);
  if (family() == AF_INET6) return sizeof(sockaddr_in6);
  return 0;
}

bool operator==(const SocketAddress& a, const SocketAddress& b) {
  if (a.family() != b.family() || a.port() != b.port()) return false;
  if (a.family() == AF_INET) {
    return a.storage_.v4.sin_addr.s_addr == b.storage_.v4.sin_addr.s_addr;
  }
  return a.family() != AF_INET6 ||
         (IN6_ARE_ADDR_EQUAL(&a.storage_.v6.sin6_addr,
                             &b.storage_.v6.sin6_addr) &&
          a.storage_.v6.sin6_scope_id == b.storage_.v6.sin6_scope_id);
}

}  // namespace verbena::base
