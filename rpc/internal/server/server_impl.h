// A server from inside.

#ifndef VERBENA_RPC_INTERNAL_SERVER_SERVER_IMPL_H_
#define VERBENA_RPC_INTERNAL_SERVER_SERVER_IMPL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/internal/server/call_limit.h"
#include "rpc/internal/server/handler_call_pool.h"
#include "rpc/internal/server/handler_guard.h"
#include "rpc/internal/server/method_registry.h"
#include "rpc/internal/server/thread_pool.h"
#include "rpc/metrics.h"
#include "rpc/server_status.h"
#include "rpc/service.h"
#include "transport/base/limits.h"
#include "transport/base/mutex.h"
#include "transport/polling/poller.h"
#include "transport/server/server_call.h"
#include "transport/server_endpoint.h"

namespace verbena::internal {

// Finds the method of each call that the transport brings, and the HandlerCall
// to serve it. See Server for its contract.
class ServerImpl final : public transport::ServerHandler {
 public:
  struct Options {
    transport::ServerEndpoint::Options endpoint;
    std::vector<Service*> services;             // Must outlive the server.
    GenericService* generic_service = nullptr;  // Or null.
    CallGate gate;
    HandlerMode handler_mode = HandlerMode::kWorkerPool;
    ThreadPool::Options workers;
    int64_t max_calls = 0;    // 0: as many as connections may have.
    int64_t max_streams = 0;  // 0: no limit of its own.
    size_t max_status_bytes = transport::kDefaultMaxStatusBytes;
  };

  static absl::StatusOr<std::unique_ptr<ServerImpl>> Start(
      const Options& options);
  ServerImpl(const ServerImpl&) = delete;
  ServerImpl& operator=(const ServerImpl&) = delete;
  ~ServerImpl();

  const std::vector<transport::ServerEndpoint::Listening>& listening() const {
    return endpoint_->listening();
  }
  // For simulations, which take its steps.
  transport::ServerEndpoint& endpoint() { return *endpoint_; }
  void Wait();
  void Shutdown(absl::Time deadline);
  ServerMetrics Metrics() const;
  // Waits for the pollers for so long, by base::Now().
  ServerStatus Status(absl::Duration patience);
  uint64_t failed_authentications() const {
    return failed_authentications_.load(std::memory_order_relaxed);
  }

  // As the transport's handler, on pollers.
  void OnCall(transport::ServerCall* call) override;
  void OnCancelled(transport::ServerCall* call) override;
  void OnUnauthenticated() override {
    failed_authentications_.fetch_add(1, std::memory_order_relaxed);
  }
  absl::Time OnTick() override {
    return threads_ == nullptr ? absl::InfiniteFuture() : threads_->Tick();
  }

 private:
  // The calls of one poller. Pollers make themselves known with their first
  // call.
  struct PollerCalls {
    std::atomic<transport::Poller*> poller{nullptr};  // Null: not in use.
    std::unique_ptr<HandlerCallPool> calls;  // Only the poller touches it.
  };

  static ServerLimits LimitsOf(const Options& options);
  explicit ServerImpl(const Options& options)
      : told_limits_(LimitsOf(options)),
        gate_(options.gate),
        limits_{CallLimit(options.max_calls), CallLimit(options.max_streams)},
        pollers_(options.endpoint.pollers) {}
  absl::Status Register(const Options& options);
  HandlerCallPool& CallsOf(transport::Poller& poller);
  // Refuses a call that is beyond `limit`, which is not the queue's.
  void RefuseCall(transport::ServerCall* call, Refusals::Limit limit);

  const ServerLimits told_limits_;  // The limits that Status() tells.
  const CallGate gate_;
  CallLimits limits_;
  std::atomic<uint64_t> failed_authentications_{0};
  MethodRegistry registry_;                       // Constant after Start().
  std::vector<BlockingMethod> blocking_methods_;  // By the method's index.
  std::vector<PollerCalls> pollers_;  // As many as the endpoint has.
  std::unique_ptr<transport::ServerEndpoint> endpoint_;
  std::unique_ptr<ThreadPool> threads_;  // Set by Register().

  base::Mutex mutex_;
  base::CondVar shut_down_changed_;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;  // Shutdown() has ended.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVER_SERVER_IMPL_H_
