// Internet addresses with a port, as text and as sockaddr.

#ifndef VERBENA_TRANSPORT_BASE_SOCKET_ADDRESS_H_
#define VERBENA_TRANSPORT_BASE_SOCKET_ADDRESS_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace verbena::base {

// An IPv4 or IPv6 address and a port, or nothing at all.
//
// A value: copies, compares, needs nothing to outlive it. Resolve() and Parse()
// may ask a name server, and then block; everything else is arithmetic.
class SocketAddress {
 public:
  // No address: family() is AF_UNSPEC and ToString() is "unknown".
  SocketAddress() = default;

  // Every address that `text` stands for, best first as the host's resolver
  // orders them; never empty when OK. `text` is "10.0.0.7:50051",
  // "[fd00::7]:50051" or "host.example:50051"; host and port are both required.
  static absl::StatusOr<std::vector<SocketAddress>> Resolve(
      absl::string_view text);

  // The first IPv4 address of Resolve(text), or the first of all if it has
  // none. For places that can use only one, such as an address to listen on.
  static absl::StatusOr<SocketAddress> Parse(absl::string_view text);

  // Parse(text) for an address in digits: never asks a name server.
  static absl::StatusOr<SocketAddress> ParseNumeric(absl::string_view text);

  // Whether `text` has the form that these want, without asking anybody.
  static absl::Status CheckForm(absl::string_view text);

  // Returns an empty address if `address` is null or its family is neither
  // AF_INET nor AF_INET6.
  static SocketAddress FromSockaddr(const sockaddr* address);

  // The wildcard and loopback addresses of `family`, AF_INET or AF_INET6.
  static SocketAddress Any(int family, uint16_t port);
  static SocketAddress Loopback(int family, uint16_t port);

  int family() const { return storage_.generic.sa_family; }
  bool empty() const { return family() == AF_UNSPEC; }

  // In host byte order; 0 when empty.
  uint16_t port() const;
  // REQUIRES: !empty().
  void set_port(uint16_t port);

  bool IsAny() const;
  bool IsLoopback() const;  // 127.0.0.0/8 or ::1.

  // Whether both probably have one owner: equal IPv4 addresses, or IPv6
  // addresses of one /64, from which a host may choose as it likes.
  bool SharesNetworkWith(const SocketAddress& other) const;

  // "10.0.0.7:50051" or "[fd00::7]:50051".
  std::string ToString() const;
  // "10.0.0.7" or "fd00::7", without brackets.
  std::string HostString() const;

  const sockaddr* get() const { return &storage_.generic; }
  // Some C functions take an address that they only read without const.
  sockaddr* mutable_get() { return &storage_.generic; }
  socklen_t size() const;

  friend bool operator==(const SocketAddress& a, const SocketAddress& b);
  friend bool operator!=(const SocketAddress& a, const SocketAddress& b) {
    return !(a == b);
  }

 private:
  union Storage {
    sockaddr_in6 v6 = {};  // The largest, so that it clears the others.
    sockaddr_in v4;
    sockaddr generic;
  };

  static absl::StatusOr<std::vector<SocketAddress>> Resolve(
      absl::string_view text, int resolver_flags);

  Storage storage_;  // By generic.sa_family; all zero when empty.
};

}  // namespace verbena::base

#endif  // VERBENA_TRANSPORT_BASE_SOCKET_ADDRESS_H_
