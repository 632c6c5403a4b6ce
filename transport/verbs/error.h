// Turns the errno of a failed verb into an absl::Status that says what to do.

#ifndef VERBENA_TRANSPORT_VERBS_ERROR_H_
#define VERBENA_TRANSPORT_VERBS_ERROR_H_

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace verbena::transport {

// The status for `verb` ("reg_mr", "connect": the name in VerbsOps or CmOps)
// having failed with errno `error` on `object` ("65536 bytes at 0x7f...",
// "10.0.0.7:50051"; may be empty). The code fits what a caller can do about it,
// and where the cause is a known one the message names the remedy.
//
// Some verbs return the errno, others return -1 and set it: the caller passes
// the number either way, and its sign does not matter. Never OK: an `error` of
// 0 gives UNKNOWN.
absl::Status ErrnoStatus(absl::string_view verb, absl::string_view object,
                         int error);

// Whether a verb that destroys has failed with `error` because the device was
// removed or reset: the kernel has destroyed the object with it. libibverbs
// reports that unless RDMAV_ALLOW_DISASSOC_DESTROY is set. ENOTTY comes for a
// context of which RemovedContexts has let go.
inline bool IsGone(int error) { return error == EIO || error == ENOTTY; }

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_VERBS_ERROR_H_
