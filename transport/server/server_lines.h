// The lines in which the calls of one connection wait.

#ifndef VERBENA_TRANSPORT_SERVER_SERVER_LINES_H_
#define VERBENA_TRANSPORT_SERVER_SERVER_LINES_H_

#include <algorithm>

#include "absl/time/time.h"
#include "transport/base/intrusive_list.h"
#include "transport/server/server_call.h"

namespace verbena::transport {

// A call stands in one line at most; first come, first served. Poller thread
// only.
struct ServerLines {
  // Large requests that wait for their turn to wait for memory.
  base::IntrusiveList<ServerCall> turns;
  // For memory for the request, or for the reply.
  base::IntrusiveList<ServerCall> memory;
  base::IntrusiveList<ServerCall> frames;    // For a credit.
  base::IntrusiveList<ServerCall> leases;    // Those that are kAwaitsLease.
  base::IntrusiveList<ServerCall> draining;  // Those that are kDraining.
  // Calls that are kHandling or kDraining, with initial metadata to send.
  base::IntrusiveList<ServerCall> initial_metadata;
  // How often the first of `leases` was another one.
  uint64_t leases_passed = 0;
  // Not after the expiry() of any call that stands in a line.
  absl::Time expiry = absl::InfiniteFuture();

  // `call` stands in a line: it does not wait beyond its deadline.
  void NoteExpiry(const ServerCall& call) {
    expiry = std::min(expiry, call.expiry());
  }
  void AwaitMemory(ServerCall* call) {
    memory.PushBack(call);
    NoteExpiry(*call);
  }
  void StopAwaitingLease(ServerCall* call) {
    if (call == leases.front()) ++leases_passed;
    leases.Remove(call);
  }
  void Clear() {
    for (base::IntrusiveList<ServerCall>* line :
         {&turns, &memory, &frames, &leases, &draining, &initial_metadata}) {
      line->Clear();
    }
  }
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SERVER_SERVER_LINES_H_
