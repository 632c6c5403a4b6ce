// Reads a server's RESPONSE.

#ifndef VERBENA_TRANSPORT_CLIENT_RESPONSE_READER_H_
#define VERBENA_TRANSPORT_CLIENT_RESPONSE_READER_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "transport/base/buffer.h"
#include "transport/client/client_arenas.h"
#include "transport/client/client_call.h"

namespace verbena::transport {

// Finds the parts of the reply in the RESPONSE `frame` and in the lease that it
// was lent, if it was. `whole`, if not null, is the memory of a frame that was
// continued. A message in the lease is copied to `message`: whoever parses it
// must not see it change, and the server may WRITE to the lease until its
// connection ends. An attachment goes to `attachment`: the lease itself, a part
// of `whole`, or a copy in memory of `arenas`. If parts are sealed, those in
// the lease are only given memory: see ResponseIntake. Returns what is wrong
// with the frame, or null; then `response` points into the frame, `message` and
// `attachment`.
const char* ReadResponse(absl::Span<const uint8_t> frame, const Buffer* whole,
                         Buffer lease, ClientArenas& arenas,
                         CallResponse* response, Buffer* message,
                         Buffer* attachment);

// Returns memory for a part that is copied. If there is none, returns an empty
// Buffer, and the call that `response` is for ends with RESOURCE_EXHAUSTED.
Buffer AllocatePartSlow(size_t bytes, ClientArenas& arenas,
                        CallResponse* response);

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CLIENT_RESPONSE_READER_H_
