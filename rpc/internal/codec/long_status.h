// The encoding of a status message that is too long for a RESPONSE.
//
// The first kMaxStatusMessageBytes bytes are in the RESPONSE, as with any other
// status. The rest goes as a pair of the trailing metadata, under a key of the
// library's own. If the status has details, the rest goes with them, because
// they repeat the whole message (rpc/status_details.h).

#ifndef VERBENA_RPC_INTERNAL_CODEC_LONG_STATUS_H_
#define VERBENA_RPC_INTERNAL_CODEC_LONG_STATUS_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/metadata.h"

namespace verbena::internal {

inline constexpr absl::string_view kStatusRestKey = ":status-message";

// The beginning of `text`, at most `bytes` long. No character of UTF-8 is cut;
// text that is none may be cut anywhere.
absl::string_view CutText(absl::string_view text, size_t bytes);

// `status` with the beginning of its message, and all its payloads.
absl::Status CutMessage(const absl::Status& status, size_t bytes);

// Removes the rest of a message from `*trailing`, and returns it; empty if
// there is none. `head_bytes` of it stood in the RESPONSE. INTERNAL if the
// server broke the rules: there was room for more in the RESPONSE, or there are
// several rests.
absl::StatusOr<std::string> TakeStatusRest(size_t head_bytes,
                                           Metadata* trailing);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CODEC_LONG_STATUS_H_
