// Writes a client's REQUEST.

#ifndef VERBENA_TRANSPORT_CLIENT_REQUEST_WRITER_H_
#define VERBENA_TRANSPORT_CLIENT_REQUEST_WRITER_H_

#include <cstdint>

#include "absl/time/time.h"
#include "transport/base/limits.h"
#include "transport/base/seal.h"
#include "transport/client/call_memory.h"
#include "transport/client/client_call.h"
#include "transport/wire/frame.h"
#include "transport/wire/placement.h"

namespace verbena::transport {

// How long the REQUEST is with those parts in it that `placement` puts there,
// and with the key of a lease if it has one.
uint32_t RequestFrameBytes(const ClientCall::Request& request,
                           Placement placement, bool has_lease_key);

// Returns a header's timeout_us for a call with this deadline. `now_ns` is the
// time of base::NowNanos(), the clock of the deadline.
inline uint64_t TimeoutUs(absl::Time deadline, int64_t now_ns) {
  if (deadline == absl::InfiniteFuture()) return kNoTimeout;
  const int64_t deadline_ns = absl::ToUnixNanos(deadline);
  if (deadline_ns <= now_ns) return 0;
  return static_cast<uint64_t>(deadline_ns - now_ns) / 1000;
}

// Writes a REQUEST that is all in its frame and has no attachment and no lease,
// as most are and those of streams, to `out`, which begins on a multiple of 8.
inline void WriteSmallRequest(ClientCall& call, uint32_t call_id,
                              int64_t now_ns, uint8_t* out) {
  const ClientCall::Request& request = call.request();
  const uint32_t message_bytes = static_cast<uint32_t>(request.message_bytes);
  // In place: nothing is cleared that is written next.
  *reinterpret_cast<RequestHeader*>(out) = {
      .frame = {.type = FrameType::kRequest,
                .flags = request.flags,
                .header_bytes = sizeof(RequestHeader),
                .credit_limit = 0,
                .call_id = call_id,
                .body_bytes = request.metadata_bytes + message_bytes},
      .method_id = request.method_id,
      .timeout_us = TimeoutUs(request.deadline, now_ns),
      .message_bytes = message_bytes,
      .message_offset = 0,
      .attachment_bytes = 0,
      .attachment_offset = 0,
      .reply_offset = 0,
      .reply_bytes = 0,
      .metadata_bytes = static_cast<uint16_t>(request.metadata_bytes),
      .message_arena = 0,
      .attachment_arena = 0,
      .reply_arena = 0};
  call.WriteRequest(out + sizeof(RequestHeader));
}

// How the parts that lie in an arena are guarded on their way.
struct PartGuard {
  bool wants_sums = false;
  PartSums sums = {};        // Of the parts, if they are wanted.
  Sealer* sealer = nullptr;  // Null unless the parts are sealed.
  uint64_t first_chunk = 0;  // The number of the first chunk that is sealed.
};

// Writes any other REQUEST: to `out` what `placement` puts there, the rest to
// `memory`, guarded. Returns how long the frame is.
uint32_t WriteRequest(ClientCall& call, uint32_t call_id, int64_t now_ns,
                      Placement placement, const CallMemory& memory,
                      uint8_t* out, PartGuard& guard);

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CLIENT_REQUEST_WRITER_H_
