// The HandlerCalls of one poller.

#ifndef VERBENA_RPC_INTERNAL_HANDLER_CALL_POOL_H_
#define VERBENA_RPC_INTERNAL_HANDLER_CALL_POOL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "rpc/internal/dispatcher.h"
#include "rpc/internal/handler_call.h"
#include "rpc/internal/method_registry.h"

namespace verbena::internal {

// Makes calls as they are needed and keeps them for later ones of the same
// method, so that a server that is warm allocates nothing.
//
// Confined to its poller. The registry (complete) and the dispatcher must
// outlive it, and every call must be back when it is destroyed.
class HandlerCallPool final : public HandlerCallOwner {
 public:
  HandlerCallPool(const MethodRegistry& registry, Dispatcher* dispatcher,
                  uint64_t max_reply_bytes);
  HandlerCallPool(const HandlerCallPool&) = delete;
  HandlerCallPool& operator=(const HandlerCallPool&) = delete;
  ~HandlerCallPool() = default;

  // Ready for Begin(). Comes back by itself when the call is over.
  HandlerCall* Take(const MethodRegistry::Method& method);

  void Recycle(HandlerCall* call) override;

 private:
  // Calls kept of one method.
  static constexpr size_t kKept = 256;

  Dispatcher* const dispatcher_;
  const uint64_t max_reply_bytes_;
  // By the method's index in the registry.
  std::vector<std::vector<std::unique_ptr<HandlerCall>>> free_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_HANDLER_CALL_POOL_H_
