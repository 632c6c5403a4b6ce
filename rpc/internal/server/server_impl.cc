#include "rpc/internal/server/server_impl.h"

#include <utility>

#include "absl/base/optimization.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "rpc/internal/codec/status_text.h"
#include "transport/base/check.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {

absl::StatusOr<std::unique_ptr<ServerImpl>> ServerImpl::Start(
    const Options& options) {
  auto server = absl::WrapUnique(new ServerImpl(options));
  RETURN_IF_ERROR(server->Register(options));
  for (PollerCalls& each : server->pollers_) {
    each.calls = std::make_unique<HandlerCallPool>(
        server->registry_, server->limits_, server->threads_.get(),
        server->blocking_methods_,
        server->gate_.open() ? nullptr : &server->gate_,
        ReplyLimits{options.endpoint.endpoint.max_send_message_bytes,
                    options.max_status_bytes});
  }
  ASSIGN_OR_RETURN(server->endpoint_,
                   transport::ServerEndpoint::Start(options.endpoint, *server));
  return server;
}

absl::Status ServerImpl::Register(const Options& options) {
  for (const Service* service : options.services) {
    RETURN_IF_ERROR(registry_.AddService(*service, options.handler_mode));
  }
  if (options.generic_service != nullptr) {
    registry_.AddGeneric(*options.generic_service, options.handler_mode);
  }
  blocking_methods_ = std::vector<BlockingMethod>(registry_.size());
  if (registry_.any_on_workers()) {
    threads_ = std::make_unique<ThreadPool>(options.workers);
  }
  return absl::OkStatus();
}

ServerImpl::~ServerImpl() {
  if (endpoint_ == nullptr) return;
  Shutdown(absl::InfinitePast());
  // A worker may still be on its way out of Poller::Post().
  threads_.reset();
  for (const PollerCalls& each : pollers_) each.calls->AwaitPosters();
  endpoint_.reset();
}

void ServerImpl::Wait() {
  const base::MutexLock lock(mutex_);
  while (!shut_down_) shut_down_changed_.Wait(mutex_);
}

void ServerImpl::Shutdown(absl::Time deadline) {
  endpoint_->Shutdown(deadline);
  const base::MutexLock lock(mutex_);
  shut_down_ = true;
  shut_down_changed_.NotifyAll();
}

void ServerImpl::OnCall(transport::ServerCall* call) {
  const MethodRegistry::Method* method = registry_.Find(call->method_id());
  if (method == nullptr) {
    method = registry_.FindGeneric(call->stream() != nullptr);
  }
  if (method == nullptr) {
    transport::ServerCall::Reply reply;
    reply.status =
        absl::UnimplementedError(UnknownMethodText(call->method_id()));
    return call->Finish(std::move(reply));
  }
  if (ABSL_PREDICT_FALSE(!limits_.calls.Enter())) {
    return RefuseCall(call, limits_.calls, "calls", "SetMaxConcurrentCalls");
  }
  if (ABSL_PREDICT_FALSE(method->streams) && !limits_.streams.Enter()) {
    limits_.calls.Leave();
    return RefuseCall(call, limits_.streams, "streams",
                      "SetMaxConcurrentStreams");
  }
  CallsOf(call->poller()).Take(*method)->Begin(call);
}

void ServerImpl::OnCancelled(transport::ServerCall* call) {
  static_cast<HandlerCall*>(call->user())->OnCancelled();
}

void ServerImpl::RefuseCall(transport::ServerCall* call, const CallLimit& limit,
                            absl::string_view kind, absl::string_view option) {
  transport::ServerCall::Reply reply;
  reply.status = absl::ResourceExhaustedError(
      absl::StrCat("the server has ", limit.most(), " ", kind,
                   " in work, as many as it may (ServerBuilder::", option,
                   "); this one was not processed"));
  call->Finish(std::move(reply));
}

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
