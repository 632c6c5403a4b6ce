// Words about failures that both sides must agree upon.

#ifndef VERBENA_RPC_INTERNAL_CODEC_STATUS_TEXT_H_
#define VERBENA_RPC_INTERNAL_CODEC_STATUS_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace verbena::internal {

// Returns the message of the UNIMPLEMENTED error for a method that a server
// does not have. The server knows only the number. The client, which knows the
// name, recognises the text and replaces it.
std::string UnknownMethodText(uint64_t method_id);

// `status` with "`prefix`: " before its message.
absl::Status Annotate(const absl::Status& status, absl::string_view prefix);

// Codes come from a peer as numbers; those that do not exist become UNKNOWN.
absl::StatusCode KnownCode(absl::StatusCode code);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CODEC_STATUS_TEXT_H_
