#include "rpc/support/method.h"

#include "absl/strings/str_cat.h"

namespace verbena::internal {

absl::Status NoRequest(absl::string_view method) {
  return absl::InvalidArgumentError(
      absl::StrCat(method, ": the client ended the call without a request"));
}

}  // namespace verbena::internal
