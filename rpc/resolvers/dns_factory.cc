#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rpc/resolver.h"
#include "rpc/resolvers/dns_follower.h"
#include "rpc/resolvers/dns_resolver.h"
#include "rpc/resolvers/dns_target.h"
#include "rpc/resolvers/dns_worker.h"
#include "transport/base/status_macros.h"

namespace verbena {
namespace {

using internal::DnsFollower;
using internal::DnsTarget;
using internal::DnsWorker;

absl::Status CheckDuration(absl::string_view name, absl::Duration value,
                           absl::Duration least, absl::Duration most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("DnsOptions::", name, " is ", absl::FormatDuration(value),
                   "; it must be between ", absl::FormatDuration(least),
                   " and ", absl::FormatDuration(most)));
}

absl::Status CheckDnsOptions(const DnsOptions& options) {
  const absl::Duration least = absl::Milliseconds(1);
  const absl::Duration day = absl::Hours(24);
  RETURN_IF_ERROR(
      CheckDuration("min_interval", options.min_interval, least, day));
  RETURN_IF_ERROR(CheckDuration("timeout", options.timeout,
                                absl::Milliseconds(24), absl::Hours(1)));
  RETURN_IF_ERROR(
      CheckDuration("first_backoff", options.first_backoff, least, day));
  RETURN_IF_ERROR(CheckDuration("max_backoff", options.max_backoff,
                                options.first_backoff, day));
  // Not `< 1`, which is false for a NaN.
  if (!(options.backoff_factor >= 1 && options.backoff_factor <= 100)) {
    return absl::InvalidArgumentError(
        absl::StrCat("DnsOptions::backoff_factor is ", options.backoff_factor,
                     "; it must be between 1 and 100"));
  }
  return absl::OkStatus();
}

class DnsResolver final : public Resolver {
 public:
  DnsResolver(std::shared_ptr<DnsWorker> worker,
              std::shared_ptr<DnsFollower> follower)
      : worker_(std::move(worker)), follower_(std::move(follower)) {}
  ~DnsResolver() override {
    follower_->Leave();
    // The thread lets go of a look that is under way.
    worker_->Wake();
  }

  void ResolveNow() override {
    if (follower_->Wish()) worker_->Wake();
  }

 private:
  const std::shared_ptr<DnsWorker> worker_;
  const std::shared_ptr<DnsFollower> follower_;
};

class DnsResolvers final : public ResolverFactory {
 public:
  explicit DnsResolvers(const DnsOptions& options)
      : options_(options), worker_(std::make_shared<DnsWorker>()) {}

  absl::string_view scheme() const override { return "dns"; }

  absl::StatusOr<std::unique_ptr<Resolver>> Create(
      const Target& target, Resolver::OnResult on_result) override {
    RETURN_IF_ERROR(CheckDnsOptions(options_));
    ASSIGN_OR_RETURN(DnsTarget parsed, internal::ParseDnsTarget(target));
    RETURN_IF_ERROR(worker_->Start());
    auto follower = std::make_shared<DnsFollower>(std::move(parsed), options_,
                                                  std::move(on_result));
    worker_->Add(follower);
    return std::make_unique<DnsResolver>(worker_, std::move(follower));
  }

 private:
  const DnsOptions options_;
  const std::shared_ptr<DnsWorker> worker_;
};

}  // namespace

std::shared_ptr<ResolverFactory> NewDnsResolvers(const DnsOptions& options) {
  return std::make_shared<DnsResolvers>(options);
}

}  // namespace verbena
