#include "rpc/resolvers/dns_target.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "transport/base/socket_address.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {
namespace {

// By RFC 1035: of a name as text without its last dot, and of a label.
constexpr size_t kNameBytesMax = 253;
constexpr size_t kLabelBytesMax = 63;

constexpr absl::string_view kDnsPort = ":53";

absl::Status Refusal(const Target& target, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("the target \"", target.text, "\" ", why));
}

bool IsName(absl::string_view name) {
  absl::ConsumeSuffix(&name, ".");
  if (name.empty() || name.size() > kNameBytesMax) return false;
  for (const absl::string_view label : absl::StrSplit(name, '.')) {
    if (label.empty() || label.size() > kLabelBytesMax) return false;
    for (const char c : label) {
      if (!absl::ascii_isalnum(c) && c != '-' && c != '_') return false;
    }
  }
  return true;
}

bool IsIpv6(const std::string& text) {
  in6_addr parsed;
  return inet_pton(AF_INET6, text.c_str(), &parsed) == 1;
}

// Returns the DNS server as DnsTarget::server has it.
absl::StatusOr<std::string> ReadServer(const Target& target) {
  const absl::string_view text = target.authority;
  if (text.empty()) return std::string();
  const bool has_port = text.front() == '[' ? absl::StrContains(text, "]:")
                                            : absl::StrContains(text, ':');
  const auto address = base::SocketAddress::ParseNumeric(
      has_port ? std::string(text) : absl::StrCat(text, kDnsPort));
  if (!address.ok() || address->port() == 0) {
    return Refusal(target,
                   absl::StrCat("has the DNS server \"", text,
                                "\", which must be an IP address, such as "
                                "10.0.0.53, 10.0.0.53:5353 or [fd00::53]"));
  }
  return address->ToString();
}

}  // namespace

absl::StatusOr<DnsTarget> ParseDnsTarget(const Target& target) {
  DnsTarget result;
  ASSIGN_OR_RETURN(result.server, ReadServer(target));
  absl::string_view host = target.path;
  // The colons in brackets are part of an IPv6 address.
  const size_t colon =
      absl::EndsWith(host, "]") ? absl::string_view::npos : host.rfind(':');
  if (colon == absl::string_view::npos && !absl::StartsWith(host, "_")) {
    return Refusal(target,
                   "has no port: it must be as dns:///orders.example:7471, or "
                   "dns:///_orders._tcp.example if SRV records have the port");
  }
  if (colon != absl::string_view::npos) {
    uint32_t port = 0;
    if (!absl::SimpleAtoi(host.substr(colon + 1), &port) || port == 0 ||
        port > UINT16_MAX) {
      return Refusal(target,
                     absl::StrCat("has the port \"", host.substr(colon + 1),
                                  "\": it must be 1 to 65535"));
    }
    result.port = static_cast<uint16_t>(port);
    host = host.substr(0, colon);
  }
  const bool in_brackets =
      absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  result.name = std::string(host);
  if (in_brackets ? !IsIpv6(result.name) : !IsName(host)) {
    return Refusal(target, absl::StrCat("has the name \"", host,
                                        "\", which cannot be one in DNS"));
  }
  return result;
}

}  // namespace verbena::internal
