#include "rpc/resolvers/etcd_client.h"

#include <algorithm>
#include <cstdint>

#include "rpc/resolvers/etcd_api.pb.h"
#include "transport/base/clock.h"

namespace verbena::internal {
namespace {

// Clients of one moment get different seeds: they differ in their places.
std::minstd_rand Seeded(const void* place) {
  const auto moment = static_cast<uint64_t>(base::NowNanos());
  const auto address = reinterpret_cast<uintptr_t>(place);
  std::seed_seq mixed{
      static_cast<uint32_t>(moment), static_cast<uint32_t>(moment >> 32),
      static_cast<uint32_t>(address), static_cast<uint32_t>(address >> 32)};
  return std::minstd_rand(mixed);
}

}  // namespace

EtcdClient::EtcdClient(EtcdLoop& loop, EtcdOptions options, OnReady on_ready,
                       OnFailure on_failure)
    : loop_(loop),
      options_(std::move(options)),
      on_ready_(std::move(on_ready)),
      on_failure_(std::move(on_failure)),
      random_(Seeded(this)),
      next_(random_()) {}

void EtcdClient::Connect() {
  Stop();
  connection_ = loop_.Connect(end_point(), options_.tls);
  if (options_.user.empty()) return on_ready_();
  Authenticate();
}

// If authentication is off, etcd needs no token.
void EtcdClient::Authenticate() {
  etcd::AuthenticateRequest request;
  request.set_name(options_.user);
  request.set_password(options_.password);
  Call<etcd::AuthenticateResponse>(
      "/etcdserverpb.Auth/Authenticate", request,
      [this](absl::StatusOr<etcd::AuthenticateResponse> response) {
        if (response.ok()) {
          connection_->set_token(response->token());
        } else if (!absl::IsFailedPrecondition(response.status())) {
          return Fail(response.status());
        }
        on_ready_();
      });
}

void EtcdClient::Stop() {
  call_ = nullptr;
  pause_ = nullptr;
  connection_ = nullptr;
}

void EtcdClient::Succeed() {
  if (succeeded_ == absl::InfiniteFuture()) succeeded_ = base::Now();
}

// An end point that fails just after it has worked counts like one that has not
// worked: else the loop would be busy with it.
void EtcdClient::Fail(const absl::Status& why) {
  const absl::Time now = base::Now();
  if (now - succeeded_ > options_.first_backoff) {
    failures_ = 0;
    backoff_ = absl::ZeroDuration();
  }
  succeeded_ = absl::InfiniteFuture();
  Stop();
  const std::string failed = end_point();
  ++next_;
  ++failures_;
  absl::Duration pause = absl::ZeroDuration();
  if (failures_ % options_.end_points.size() == 0) {
    backoff_ = backoff_ == absl::ZeroDuration()
                   ? options_.first_backoff
                   : std::min(backoff_ * options_.backoff_factor,
                              options_.max_backoff);
    pause =
        backoff_ * std::uniform_real_distribution<double>(0.8, 1.2)(random_);
  }
  // A timer even without a pause, because callers are in the midst of things.
  pause_ = loop_.At(now + pause, [this] { Connect(); });
  if (pause == absl::ZeroDuration()) return;
  on_failure_(absl::UnavailableError(absl::StrCat(
      "etcd at ", failed, ": ", why.message(), "; the next attempt is in ",
      absl::FormatDuration(absl::Floor(pause, absl::Milliseconds(1))))));
}

}  // namespace verbena::internal
