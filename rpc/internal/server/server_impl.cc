#include "rpc/internal/server/server_impl.h"

#include <memory>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "rpc/internal/codec/status_text.h"
#include "rpc/internal/metrics/poller_snapshot.h"
#include "rpc/internal/server/server_looks.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {

// Fills the registry before the endpoint starts, since pollers read it without
// a lock.
absl::StatusOr<std::unique_ptr<ServerImpl>> ServerImpl::Start(
    const Options& options) {
  auto server = absl::WrapUnique(new ServerImpl(options));
  RETURN_IF_ERROR(server->Register(options));
  for (PollerCalls& each : server->pollers_) {
    each.calls = std::make_unique<HandlerCallPool>(
        server->registry_, server->limits_, server->blocking_methods_,
        server->threads_.get(), server->gate_.open() ? nullptr : &server->gate_,
        ReplyLimits{options.endpoint.endpoint.max_send_message_bytes,
                    options.max_status_bytes});
  }
  ASSIGN_OR_RETURN(server->endpoint_,
                   transport::ServerEndpoint::Start(options.endpoint, *server));
  return server;
}

// Numbers the methods. The vectors that go by that number are made afterwards.
absl::Status ServerImpl::Register(const Options& options) {
  for (const Service* service : options.services) {
    RETURN_IF_ERROR(registry_.AddService(*service, options.handler_mode));
  }
  if (options.generic_service != nullptr) {
    registry_.AddGeneric(*options.generic_service, options.handler_mode);
  }
  blocking_methods_ = std::vector<BlockingMethod>(registry_.size());
  // The pool starts no threads before it is used.
  threads_ = std::make_unique<ThreadPool>(options.workers);
  return absl::OkStatus();
}

// Ends the calls, then the workers, then the pollers, because each may still
// use the next.
ServerImpl::~ServerImpl() {
  if (endpoint_ == nullptr) return;
  Shutdown(absl::InfinitePast());
  // A worker may still be on its way out of Poller::Post().
  threads_.reset();
  for (const PollerCalls& each : pollers_) {
    each.calls->share().poster.AwaitAll();
  }
  endpoint_.reset();
}

void ServerImpl::Wait() {
  const base::MutexLock lock(mutex_);
  while (!shut_down_) shut_down_changed_.Wait(mutex_);
}

void ServerImpl::Shutdown(absl::Time deadline) {
  // Without the mutex: Wait() needs it, and calls may take until the deadline.
  endpoint_->Shutdown(deadline);
  const base::MutexLock lock(mutex_);
  shut_down_ = true;
  shut_down_changed_.NotifyAll();
}

// Finds the method, enters the limits that the call counts for, and begins it.
// A refused call has done nothing, and says so.
void ServerImpl::OnCall(transport::ServerCall* call) {
  const MethodRegistry::Method* method = registry_.Find(call->method_id());
  if (method == nullptr) {
    method = registry_.FindGeneric(call->stream() != nullptr);
  }
  if (method == nullptr) {
    CallsOf(call->poller()).NoteUnknown();
    transport::ServerCall::Reply reply;
    reply.status =
        absl::UnimplementedError(UnknownMethodText(call->method_id()));
    return call->Finish(std::move(reply));
  }
  if (ABSL_PREDICT_FALSE(!limits_.calls.Enter())) {
    return RefuseCall(call, Refusals::Limit::kCalls);
  }
  if (ABSL_PREDICT_FALSE(method->streams) && !limits_.streams.Enter()) {
    // A stream counts for both limits or for neither.
    limits_.calls.Leave();
    return RefuseCall(call, Refusals::Limit::kStreams);
  }
  CallsOf(call->poller()).Take(*method)->Begin(call);
}

void ServerImpl::OnCancelled(transport::ServerCall* call) {
  static_cast<HandlerCall*>(call->user())->OnCancelled();
}

void ServerImpl::RefuseCall(transport::ServerCall* call,
                            Refusals::Limit limit) {
  const bool streams = limit == Refusals::Limit::kStreams;
  transport::ServerCall::Reply reply;
  reply.status = absl::ResourceExhaustedError(absl::StrCat(
      "the server has ", (streams ? limits_.streams : limits_.calls).most(),
      streams ? " streams" : " calls",
      " in progress, which is its limit (ServerBuilder::",
      streams ? "SetMaxConcurrentStreams" : "SetMaxConcurrentCalls",
      "); this call was not processed"));
  CallsOf(call->poller())
      .share()
      .refusals.Note(
          limit, absl::StrCat("calls are refused: ", reply.status.message()));
  call->Finish(std::move(reply));
}

// Sums up the counters of all pollers, each of which counts without others. The
// sums are not of one instant.
ServerMetrics ServerImpl::Metrics() const {
  using Limit = Refusals::Limit;
  ServerMetrics metrics;
  for (int index = 0; index < registry_.size(); ++index) {
    const Method& method = *registry_.all()[static_cast<size_t>(index)];
    MethodMetrics& entry = metrics.methods.emplace_back();
    entry.streams = method.streams();
    entry.name = method.is_generic() && method.streams() ? "generic stream"
                                                         : method.full_name();
    for (const PollerCalls& each : pollers_) {
      each.calls->counters(index).AddTo(&entry);
    }
  }
  for (const PollerCalls& each : pollers_) {
    const Refusals& refusals = each.calls->share().refusals;
    metrics.unknown_methods += each.calls->unknown_methods();
    metrics.calls_over_limit += refusals.count(Limit::kCalls);
    metrics.streams_over_limit += refusals.count(Limit::kStreams);
    metrics.queue_refusals += refusals.count(Limit::kQueue);
    metrics.unserved_calls += refusals.count(Limit::kWorkers);
  }
  metrics.failed_authentications = failed_authentications();
  if (threads_ != nullptr) {
    const ThreadPool::Use use = threads_->use();
    metrics.workers = static_cast<uint64_t>(use.threads);
    metrics.idle_workers = static_cast<uint64_t>(use.idle);
    metrics.queued_calls = static_cast<uint64_t>(use.queued);
  }
  endpoint_->VisitPollers(
      [&metrics](const transport::PollerCounters& counters, uint64_t refused) {
        metrics.refused_connections += refused;
        AddPoller(counters, &metrics.pollers);
      });
  return metrics;
}

ServerLimits ServerImpl::LimitsOf(const Options& options) {
  ServerLimits limits;
  limits.concurrent_calls = options.max_calls;
  limits.concurrent_streams = options.max_streams;
  limits.connection_calls = options.endpoint.endpoint.max_open_calls;
  limits.worker_threads = options.workers.most;
  limits.worker_queue = options.workers.queue_limit;
  limits.bulk_bytes =
      static_cast<int64_t>(options.endpoint.endpoint.max_bulk_bytes);
  return limits;
}

// Asks each poller to describe itself on its own thread. A poller that is held
// up answers too late, and its part is missing.
ServerStatus ServerImpl::Status(absl::Duration patience) {
  // Shared: a late answer comes after this function has returned.
  const auto look = std::make_shared<ServerLook>();
  const int asked =
      endpoint_->Look([this, look](transport::ServerPoller& poller) {
        look->Add(StatusOf(poller, CallsOf(poller.poller()), registry_));
      });
  ServerStatus status = look->Await(asked, base::Now() + patience);
  status.incomplete = status.incomplete || asked == 0;
  status.limits = told_limits_;
  return status;
}

// Looks through a few entries. A poller takes the first free one at its first
// call.
HandlerCallPool& ServerImpl::CallsOf(transport::Poller& poller) {
  for (PollerCalls& each : pollers_) {
    transport::Poller* owner = each.poller.load(std::memory_order_relaxed);
    if (owner == &poller) return *each.calls;
    // A poller can't be in two places: entries fill from the first one on, and
    // only the poller itself writes its address.
    if (owner == nullptr && each.poller.compare_exchange_strong(
                                owner, &poller, std::memory_order_relaxed)) {
      return *each.calls;
    }
  }
  CHECK(false) << "more pollers than the endpoint was told to start";
  return *pollers_.front().calls;
}

}  // namespace verbena::internal
