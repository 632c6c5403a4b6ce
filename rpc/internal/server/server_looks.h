// Collects the ServerStatus of a server from its pollers.

#ifndef VERBENA_RPC_INTERNAL_SERVER_SERVER_LOOKS_H_
#define VERBENA_RPC_INTERNAL_SERVER_SERVER_LOOKS_H_

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "rpc/internal/server/handler_call_pool.h"
#include "rpc/internal/server/method_registry.h"
#include "rpc/server_status.h"
#include "transport/base/mutex.h"
#include "transport/server/server_poller.h"

namespace verbena::internal {

// Returns what is open at one poller, and what was slow. On its thread.
ServerStatus StatusOf(const transport::ServerPoller& poller,
                      HandlerCallPool& calls, const MethodRegistry& registry);

// Puts the pollers' answers together. Pollers share it, so that those that
// answer late still find it there. Thread-safe.
class ServerLook {
 public:
  void Add(ServerStatus part);
  // Waits for `parts` parts, until `deadline`; returns those that have come.
  ServerStatus Await(int parts, absl::Time deadline);

 private:
  base::Mutex mutex_;
  base::CondVar added_;
  int parts_ ABSL_GUARDED_BY(mutex_) = 0;
  ServerStatus whole_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVER_SERVER_LOOKS_H_
