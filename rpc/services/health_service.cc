#include "rpc/services/health_service.h"

#include <cstddef>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "transport/base/clock.h"

namespace verbena {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using grpc::health::v1::HealthListRequest;
using grpc::health::v1::HealthListResponse;

namespace {

// How soon a handler that waits for news sees that nobody does any more.
constexpr absl::Duration kLookInterval = absl::Milliseconds(100);

// As the protocol has it.
constexpr size_t kListedMax = 100;

}  // namespace

HealthService::ServingStatus HealthService::StatusOf(
    absl::string_view service) const {
  const auto found = statuses_.find(service);
  return found == statuses_.end() ? HealthCheckResponse::SERVICE_UNKNOWN
                                  : found->second;
}

HealthService::ServingStatus HealthService::Told(bool serving) const {
  return serving && !shut_down_ ? HealthCheckResponse::SERVING
                                : HealthCheckResponse::NOT_SERVING;
}

void HealthService::SetServingStatus(absl::string_view service, bool serving) {
  const base::MutexLock lock(mutex_);
  statuses_[std::string(service)] = Told(serving);
  changed_.NotifyAll();
}

void HealthService::SetServingStatus(bool serving) {
  const base::MutexLock lock(mutex_);
  for (auto& [service, status] : statuses_) status = Told(serving);
  changed_.NotifyAll();
}

void HealthService::Shutdown() {
  const base::MutexLock lock(mutex_);
  shut_down_ = true;
  for (auto& [service, status] : statuses_) status = Told(false);
  changed_.NotifyAll();
}

absl::Status HealthService::Check(ServerContext* /*context*/,
                                  const HealthCheckRequest* request,
                                  HealthCheckResponse* response) {
  const base::MutexLock lock(mutex_);
  const ServingStatus status = StatusOf(request->service());
  if (status == HealthCheckResponse::SERVICE_UNKNOWN) {
    return absl::NotFoundError(
        "nothing is known of the health of that service");
  }
  response->set_status(status);
  return absl::OkStatus();
}

absl::Status HealthService::List(ServerContext* /*context*/,
                                 const HealthListRequest* /*request*/,
                                 HealthListResponse* response) {
  const base::MutexLock lock(mutex_);
  if (statuses_.size() > kListedMax) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the health of ", statuses_.size(), " services is known; at most ",
        kListedMax, " are listed: use Check"));
  }
  for (const auto& [service, status] : statuses_) {
    (*response->mutable_statuses())[service].set_status(status);
  }
  return absl::OkStatus();
}

absl::Status HealthService::Watch(ServerContext* context,
                                  const HealthCheckRequest* request,
                                  ServerWriter<HealthCheckResponse>* writer) {
  std::optional<ServingStatus> told;
  while (!context->IsCancelled()) {
    HealthCheckResponse news;
    {
      const base::MutexLock lock(mutex_);
      if (StatusOf(request->service()) == told) {
        if (shut_down_) return absl::UnavailableError("the server shuts down");
        changed_.WaitUntil(mutex_, base::Now() + kLookInterval);
      }
      news.set_status(StatusOf(request->service()));
    }
    if (news.status() == told) continue;
    told = news.status();
    if (!writer->Write(news)) break;
  }
  return absl::CancelledError("nobody watches any more");
}

}  // namespace verbena
