#include "rpc/internal/codec/status_text.h"

#include "absl/strings/str_cat.h"

namespace verbena::internal {

// A text that both sides know: the client compares it, and puts the name in its
// place.
std::string UnknownMethodText(uint64_t method_id) {
  return absl::StrCat("no method with the hash 0x",
                      absl::Hex(method_id, absl::kZeroPad16));
}

absl::Status Annotate(const absl::Status& status, absl::string_view prefix) {
  return absl::Status(status.code(),
                      absl::StrCat(prefix, ": ", status.message()));
}

absl::StatusCode KnownCode(absl::StatusCode code) {
  const int number = static_cast<int>(code);
  // A newer peer may send codes that this library does not know.
  const bool known =
      number >= 0 &&
      number <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  return known ? code : absl::StatusCode::kUnknown;
}

}  // namespace verbena::internal
