#include "rpc/internal/server/server_looks.h"

#include <iterator>
#include <utility>
#include <vector>

#include "rpc/internal/server/handler_call.h"
#include "transport/base/cycle_counter.h"
#include "transport/base/cycle_rate.h"
#include "transport/server/server_call.h"
#include "transport/server/server_calls.h"
#include "transport/session/connection_state.h"

namespace verbena::internal {
namespace {

// Asks the handler of a call if it has one. A call that is still being received
// has only its method's number.
OpenCallStatus CallStatus(const transport::ServerCall& call,
                          const MethodRegistry& registry, uint64_t now) {
  OpenCallStatus status;
  status.peer = call.peer();
  status.state = transport::ServerCallStateName(call.state());
  if (call.is_handled()) {
    // From OnCall() until Finish() that is so, and this thread does both.
    const auto& handler = *static_cast<const HandlerCall*>(call.user());
    status.method = handler.method_name();
    if (handler.awaits_worker()) status.state = "waits for a worker";
    status.age = absl::Nanoseconds(static_cast<int64_t>(
        base::CycleRate::OfMachine().Nanos(now - handler.begun())));
    return status;
  }
  const MethodRegistry::Method* const method = registry.Find(call.method_id());
  status.method =
      method == nullptr ? "a method by name" : method->method->full_name();
  return status;
}

template <typename Entry>
void Append(std::vector<Entry> from, std::vector<Entry>* to) {
  to->insert(to->end(), std::make_move_iterator(from.begin()),
             std::make_move_iterator(from.end()));
}

}  // namespace

// Counts all connections and calls, but lists only some, so that a look at a
// busy poller stays short.
ServerStatus StatusOf(const transport::ServerPoller& poller,
                      HandlerCallPool& calls, const MethodRegistry& registry) {
  const uint64_t now = base::CycleNow();
  ServerStatus status;
  poller.VisitConnections([&](const transport::ServerCalls& each) {
    const transport::Connection& connection = each.connection();
    ++status.connection_count;
    status.open_call_count += each.open_calls();
    if (status.connections.size() < ServerStatus::kMostListed) {
      status.connections.push_back(
          {connection.peer(), connection.device().name(),
           transport::ConnectionStateName(connection.state()),
           each.open_calls(), connection.credit_flow().available(),
           connection.credit_flow().window()});
    }
    if (each.open_calls() == 0) return;
    each.VisitCalls([&](const transport::ServerCall& call) {
      if (status.open_calls.size() < ServerStatus::kMostListed) {
        status.open_calls.push_back(CallStatus(call, registry, now));
      }
    });
  });
  calls.share().slow_calls.AppendTo(now, &status.slow_calls);
  return status;
}

void ServerLook::Add(ServerStatus part) {
  const base::MutexLock lock(mutex_);
  whole_.connection_count += part.connection_count;
  whole_.open_call_count += part.open_call_count;
  Append(std::move(part.connections), &whole_.connections);
  Append(std::move(part.open_calls), &whole_.open_calls);
  Append(std::move(part.slow_calls), &whole_.slow_calls);
  ++parts_;
  added_.NotifyAll();
}

ServerStatus ServerLook::Await(int parts, absl::Time deadline) {
  const base::MutexLock lock(mutex_);
  // A poller that a handler holds up may answer after the deadline.
  while (parts_ < parts) {
    if (!added_.WaitUntil(mutex_, deadline)) break;
  }
  whole_.incomplete = parts_ < parts;
  // A copy: late parts may still be added.
  return whole_;
}

}  // namespace verbena::internal
