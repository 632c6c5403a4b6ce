// Bytes beside a message: attachments.

#ifndef VERBENA_RPC_BUFFER_H_
#define VERBENA_RPC_BUFFER_H_

#include "transport/base/buffer.h"

namespace verbena {

// A movable handle on memory that a device may access: data(), size(), span().
// Where from: Channel::AllocateBuffer(), ServerContext::AllocateBuffer(), and
// whatever a peer sent. A Buffer that is sent through the channel or from the
// server that it came from is copied by no CPU on the way to the device; any
// other is copied once. Share() makes another handle on the same bytes.
//
// It may outlive its channel, server and connection. While it lives it takes
// room among max_arena_bytes (client) or max_bulk_bytes (server): copy what is
// to be kept for long. Memory of a client's Buffer may be written by its server
// as long as they are connected; the bytes that a server gets are its own.
using Buffer = transport::Buffer;

}  // namespace verbena

#endif  // VERBENA_RPC_BUFFER_H_
