// The objects that the parts of ClientCalls share.

#ifndef VERBENA_TRANSPORT_CLIENT_CLIENT_SHARED_H_
#define VERBENA_TRANSPORT_CLIENT_CLIENT_SHARED_H_

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "transport/base/intrusive_list.h"
#include "transport/client/client_arenas.h"
#include "transport/client/client_call.h"
#include "transport/client/client_call_slots.h"
#include "transport/session/call_table.h"
#include "transport/session/connection.h"

namespace verbena::transport {

// Poller thread only.
struct ClientShared {
  // `table` is the ClientCalls under construction.
  ClientShared(CallTable& table, Poller& poller, PollerDevice& device,
               MemoryDomain& memory, CmId id,
               PollerDevice::QueuePair queue_pair,
               const EndpointOptions& options)
      : arenas(memory.pool(), options.max_receive_message_bytes),
        connection(poller, device, memory, std::move(id), std::move(queue_pair),
                   options,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                       IBV_ACCESS_REMOTE_WRITE,
                   table) {}

  // The call is not open beyond that time.
  void NoteDeadline(absl::Time deadline) {
    next_deadline = std::min(next_deadline, deadline);
  }
  // Returns the line of a call that waits.
  base::IntrusiveList<ClientCall>& LineOf(const ClientCall& call) {
    return call.link().fits_frame ? waiting_small : waiting_large;
  }

  ClientCallSlots slots;
  // Calls that wait: for a slot or a credit, and for arena memory. Apart, so
  // that no large call holds up small ones.
  base::IntrusiveList<ClientCall> waiting_small;
  base::IntrusiveList<ClientCall> waiting_large;
  // The earliest deadline of all calls, also of those that wait.
  absl::Time next_deadline = absl::InfiniteFuture();
  ClientArenas arenas;
  Connection connection;  // The last: it lets go of all before.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CLIENT_CLIENT_SHARED_H_
