// Targets that name a file: "file:///etc/services/orders.json".

#ifndef VERBENA_RPC_INTERNAL_SERVICE_FILE_RESOLVER_H_
#define VERBENA_RPC_INTERNAL_SERVICE_FILE_RESOLVER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/resolver.h"

namespace verbena::internal {

// Reads the file again whenever it is written, or another takes its place. A
// resolver has a thread, which mostly sleeps.
class FileResolvers final : public ResolverFactory {
 public:
  absl::string_view scheme() const override { return "file"; }
  absl::StatusOr<std::unique_ptr<Resolver>> Create(
      const Target& target, Resolver::OnResult on_result) override;
};

// Reads what such a file holds:
//
//   {"servers": ["10.0.0.1:7471",
//                {"address": "10.0.0.2:7471", "weight": 2,
//                 "locality": {"region": "eu", "zone": "a", "subZone": "r7"},
//                 "attributes": {"release": "41"}}],
//    "serviceConfig": {"loadBalancingConfig": [{"round_robin": {}}]}}
//
// INVALID_ARGUMENT names the path of what is wrong, and its value.
absl::StatusOr<Resolved> ParseServerFile(absl::string_view text);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVICE_FILE_RESOLVER_H_
