#include "rpc/internal/service/literal_resolver.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {
namespace {

class Literal final : public Resolver {
 public:
  void ResolveNow() override {}
};

}  // namespace

absl::string_view LiteralResolvers::scheme() const {
  return family_ == AF_INET ? "ipv4" : "ipv6";
}

absl::Status LiteralResolvers::CheckAddress(absl::string_view address) const {
  const size_t colon = address.rfind(':');
  absl::string_view host = address.substr(0, colon);
  uint32_t port = 0;
  const bool has_port = colon != absl::string_view::npos &&
                        absl::SimpleAtoi(address.substr(colon + 1), &port) &&
                        port > 0 && port <= UINT16_MAX;
  const bool brackets =
      absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  in6_addr parsed;
  if (!has_port || brackets != (family_ == AF_INET6) ||
      inet_pton(family_, std::string(host).c_str(), &parsed) != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the target has the address \"", address, "\", but the scheme ",
        scheme(), " takes addresses such as ",
        family_ == AF_INET ? "10.0.0.1:7471" : "[fd00::1]:7471",
        ", with commas between them"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Resolver>> LiteralResolvers::Create(
    const Target& target, Resolver::OnResult on_result) {
  Resolved resolved;
  for (const absl::string_view address : absl::StrSplit(target.path, ',')) {
    RETURN_IF_ERROR(CheckAddress(address));
    resolved.servers.push_back({.address = std::string(address)});
  }
  on_result(std::move(resolved));
  return std::make_unique<Literal>();
}

}  // namespace verbena::internal
