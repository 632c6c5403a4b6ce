// Targets that list addresses: "ipv4:10.0.0.1:7471,10.0.0.2:7471".

#ifndef VERBENA_RPC_INTERNAL_SERVICE_LITERAL_RESOLVER_H_
#define VERBENA_RPC_INTERNAL_SERVICE_LITERAL_RESOLVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/resolver.h"

namespace verbena::internal {

// The schemes "ipv4" and "ipv6". IPv6 addresses stand in brackets.
class LiteralResolvers final : public ResolverFactory {
 public:
  // `family` is AF_INET or AF_INET6.
  explicit LiteralResolvers(int family) : family_(family) {}

  absl::string_view scheme() const override;
  absl::StatusOr<std::unique_ptr<Resolver>> Create(
      const Target& target, Resolver::OnResult on_result) override;

 private:
  absl::Status CheckAddress(absl::string_view address) const;

  const int family_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVICE_LITERAL_RESOLVER_H_
