#include "tests/simulation/fleet_names.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "transport/base/check.h"

namespace verbena::simulation {
namespace {

// Neither the default of a program that listens at all addresses, as 7471 is,
// nor one that the kernel gives away.
constexpr int kPort = 17471;
constexpr char kDomain[] = ".fleet";
// The last byte of an address at which nobody listens, and of the one that
// shows that a process has the others.
constexpr size_t kNobody = 253;
constexpr size_t kMark = 254;

std::string HostAt(uint16_t net, size_t host) {
  return absl::StrCat("127.", 1 + (net >> 8) % 250, ".", net & 255, ".", host);
}

// Whether this process has the net from now on, for its whole life.
bool TakeNet(uint16_t net) {
  const int mark = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  CHECK_EQ(::inet_pton(AF_INET, HostAt(net, kMark).c_str(), &address.sin_addr),
           1);
  if (::bind(mark, reinterpret_cast<const sockaddr*>(&address),
             sizeof(address)) == 0) {
    return true;
  }
  ::close(mark);
  return false;
}

uint16_t TakeSomeNet() {
  std::random_device random;
  for (;;) {
    const auto net = static_cast<uint16_t>(random());
    if (TakeNet(net)) return net;
  }
}

uint16_t Net() {
  static const uint16_t net = TakeSomeNet();
  return net;
}

// Returns the numeric address of a host of the fleet; empty if there is none.
std::string FleetHost(absl::string_view name) {
  absl::ConsumeSuffix(&name, kDomain);
  if (name == "nobody") return HostAt(Net(), kNobody);
  size_t server = 0;
  if (!absl::ConsumePrefix(&name, "s") || !absl::SimpleAtoi(name, &server)) {
    return "";
  }
  return HostAt(Net(), 1 + server);
}

bool IsFleetHost(absl::string_view name) {
  return absl::EndsWith(name, kDomain);
}

}  // namespace

std::string ServerName(size_t server) {
  return absl::StrFormat("s%03d%s:%d", server, kDomain, kPort);
}

std::string ServerAddressText(size_t server) {
  return absl::StrCat(HostAt(Net(), 1 + server), ":", kPort);
}

std::optional<size_t> ServerAt(absl::string_view address) {
  for (size_t server = 0; server < kMostServers; ++server) {
    if (ServerAddressText(server) == address) return server;
  }
  return std::nullopt;
}

std::string UselessName(int kind) {
  switch (kind % 3) {
    case 0:
      return absl::StrCat("nobody.fleet:", kPort);
    case 1:
      return absl::StrCat("unknown.fleet:", kPort);
    default:
      return "no port";
  }
}

}  // namespace verbena::simulation

// Instead of the system's, for the whole program.
extern "C" int getaddrinfo(const char* node, const char* service,
                           const addrinfo* hints, addrinfo** result) {
  static const auto next = reinterpret_cast<decltype(&getaddrinfo)>(
      ::dlsym(RTLD_NEXT, "getaddrinfo"));
  if (node == nullptr || !verbena::simulation::IsFleetHost(node)) {
    return next(node, service, hints, result);
  }
  const std::string host = verbena::simulation::FleetHost(node);
  if (host.empty()) return EAI_NONAME;
  return next(host.c_str(), service, hints, result);
}
