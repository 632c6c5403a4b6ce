#include "rpc/services/health_service.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/base/check.h"

namespace verbena {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using grpc::health::v1::HealthListRequest;
using grpc::health::v1::HealthListResponse;

namespace {

// As the protocol has it.
constexpr size_t kListedMax = 100;

absl::Status CheckName(const std::string& service) {
  if (service.size() <= HealthService::kMaxNameBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the name of the service has ", service.size(),
      " bytes; it may have at most ", HealthService::kMaxNameBytes));
}

// The call of a client that may not watch.
class Refusal final : public ServerWriteReactor<HealthCheckResponse> {
 public:
  explicit Refusal(absl::Status status) { Finish(std::move(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

// The call of one client that watches. All but its reactions is under the
// service's mutex, in which the service starts its operations: those come back
// here later, and never from inside.
class HealthService::Watcher final
    : public ServerWriteReactor<HealthCheckResponse> {
 public:
  explicit Watcher(HealthService* service) : service_(*service) {}

  // Before anything else: where it is among the watchers.
  void set_place(Watchers::iterator place) { place_ = place; }
  const std::string& watched() const { return place_->first; }

  // The status may have changed during the write, so Tell() compares it again.
  void OnWriteDone(bool ok) override {
    const base::MutexLock lock(service_.mutex_);
    writing = false;
    gone |= !ok;
    service_.Tell(this);
  }
  void OnCancel() override {
    const base::MutexLock lock(service_.mutex_);
    gone = true;
    service_.Tell(this);
  }
  void OnDone() override {
    {
      const base::MutexLock lock(service_.mutex_);
      // Only here: place_ must stay valid until the last reaction.
      service_.watchers_.erase(place_);
    }
    delete this;
  }

  HealthCheckResponse news;           // While it is being written.
  std::optional<ServingStatus> told;  // The last news.
  bool writing = false;
  bool gone = false;   // Nobody watches any more.
  bool ended = false;  // Finish() was called.

 private:
  HealthService& service_;
  Watchers::iterator place_;
};

HealthService::~HealthService() {
  const base::MutexLock lock(mutex_);
  CHECK(watchers_.empty()) << "a HealthService must outlive its server";
}

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

HealthService::ServingStatus HealthService::GetServingStatus(
    absl::string_view service) const {
  const base::MutexLock lock(mutex_);
  return StatusOf(service);
}

void HealthService::SetServingStatus(absl::string_view service, bool serving) {
  const base::MutexLock lock(mutex_);
  // Before the watchers are told, who read it.
  statuses_[std::string(service)] = Told(serving);
  const auto [begin, end] = watchers_.equal_range(service);
  for (auto watcher = begin; watcher != end; ++watcher) Tell(watcher->second);
}

void HealthService::SetServingStatus(bool serving) {
  const base::MutexLock lock(mutex_);
  for (auto& [service, status] : statuses_) status = Told(serving);
  TellAll();
}

void HealthService::Shutdown() {
  const base::MutexLock lock(mutex_);
  shut_down_ = true;
  for (auto& [service, status] : statuses_) status = Told(false);
  TellAll();
}

void HealthService::TellAll() {
  for (const auto& [service, watcher] : watchers_) Tell(watcher);
}

// Starts one operation at most. The news come before the end, so that a watcher
// hears NOT_SERVING before its call ends.
void HealthService::Tell(Watcher* watcher) {
  if (watcher->writing || watcher->ended) return;
  const ServingStatus status = StatusOf(watcher->watched());
  if (!watcher->gone && status != watcher->told) {
    watcher->told = status;
    watcher->news.set_status(status);
    watcher->writing = true;
    return watcher->StartWrite(&watcher->news);
  }
  if (!watcher->gone && !shut_down_) return;
  watcher->ended = true;
  watcher->Finish(watcher->gone
                      ? absl::CancelledError("the client no longer watches")
                      : absl::UnavailableError("the server is shutting down"));
}

// Answers at once: the reactor is finished before it is returned.
ServerUnaryReactor* HealthService::Check(CallbackServerContext* context,
                                         const HealthCheckRequest* request,
                                         HealthCheckResponse* response) {
  ServerUnaryReactor* const reactor = context->DefaultReactor();
  if (absl::Status name = CheckName(request->service()); !name.ok()) {
    reactor->Finish(std::move(name));
    return reactor;
  }
  response->set_status(GetServingStatus(request->service()));
  reactor->Finish(
      response->status() == HealthCheckResponse::SERVICE_UNKNOWN
          ? absl::NotFoundError(
                "this server does not know the health of that service")
          : absl::OkStatus());
  return reactor;
}

ServerUnaryReactor* HealthService::List(CallbackServerContext* context,
                                        const HealthListRequest* /*request*/,
                                        HealthListResponse* response) {
  ServerUnaryReactor* const reactor = context->DefaultReactor();
  const base::MutexLock lock(mutex_);
  // The protocol wants an error, not a part of the list.
  if (statuses_.size() > kListedMax) {
    reactor->Finish(absl::ResourceExhaustedError(absl::StrCat(
        "the health of ", statuses_.size(), " services is known, but at most ",
        kListedMax, " are listed; ask for each with Check")));
    return reactor;
  }
  for (const auto& [service, status] : statuses_) {
    (*response->mutable_statuses())[service].set_status(status);
  }
  reactor->Finish(absl::OkStatus());
  return reactor;
}

ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(
    CallbackServerContext* /*context*/, const HealthCheckRequest* request) {
  if (absl::Status name = CheckName(request->service()); !name.ok()) {
    return new Refusal(std::move(name));
  }
  // Whichever of the two finds no memory, nothing is left behind.
  auto watcher = std::make_unique<Watcher>(this);
  const base::MutexLock lock(mutex_);
  watcher->set_place(watchers_.emplace(request->service(), watcher.get()));
  Tell(watcher.get());
  return watcher.release();
}

}  // namespace verbena
