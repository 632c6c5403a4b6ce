// The objects that the parts of ServerCalls share.

#ifndef VERBENA_TRANSPORT_SERVER_SERVER_SHARED_H_
#define VERBENA_TRANSPORT_SERVER_SERVER_SHARED_H_

#include <utility>

#include "transport/server/bulk_share.h"
#include "transport/server/bulk_transfers.h"
#include "transport/server/server_call_slots.h"
#include "transport/server/server_lines.h"
#include "transport/session/call_table.h"
#include "transport/session/connection.h"
#include "transport/wire/remote_arenas.h"

namespace verbena::transport {

// Poller thread only.
struct ServerShared {
  // `calls` and `table` are the ServerCalls under construction.
  ServerShared(ServerCalls& calls, CallTable& table, ServerHandler& handler,
               Poller& poller, PollerDevice& device, CmId id,
               PollerDevice::QueuePair queue_pair,
               const EndpointOptions& options)
      : slots(calls, connection, handler, options.max_open_calls),
        memory(device.shared_memory().pool(), options.max_bulk_bytes),
        transfers(poller),
        connection(poller, device, device.shared_memory(), std::move(id),
                   std::move(queue_pair), options, /*access=*/0, table) {}

  ServerCallSlots slots;
  ServerLines lines;
  BulkShare memory;
  RemoteArenas arenas;  // The client's.
  BulkTransfers transfers;
  Connection connection;  // The last: it lets go of all before.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SERVER_SERVER_SHARED_H_
