#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/resolver.h"
#include "rpc/resolvers/etcd_follower.h"
#include "rpc/resolvers/etcd_loop.h"
#include "rpc/resolvers/etcd_resolver.h"
#include "rpc/resolvers/etcd_target.h"
#include "transport/base/status_macros.h"

namespace verbena {
namespace {

using internal::EtcdFollower;
using internal::EtcdLoop;
using internal::EtcdTarget;

class EtcdResolver final : public Resolver {
 public:
  EtcdResolver(std::shared_ptr<EtcdLoop> loop,
               std::unique_ptr<EtcdFollower> follower)
      : loop_(std::move(loop)), follower_(std::move(follower)) {
    loop_->Post([follower = follower_.get()] { follower->Start(); });
  }
  // The thread destroys what it uses.
  ~EtcdResolver() override {
    follower_->Leave();
    loop_->Post(
        [follower = std::move(follower_)]() mutable { follower = nullptr; });
  }

  // A watch needs no hurry, and the pauses between attempts are for etcd.
  void ResolveNow() override {}

 private:
  const std::shared_ptr<EtcdLoop> loop_;
  std::unique_ptr<EtcdFollower> follower_;
};

class EtcdResolvers final : public ResolverFactory {
 public:
  explicit EtcdResolvers(const EtcdOptions& options) : options_(options) {}

  absl::string_view scheme() const override { return "etcd"; }

  absl::StatusOr<std::unique_ptr<Resolver>> Create(
      const Target& target, Resolver::OnResult on_result) override {
    ASSIGN_OR_RETURN(EtcdTarget parsed, internal::ParseEtcdTarget(target));
    EtcdOptions options = options_;
    if (!parsed.end_points.empty()) {
      options.end_points = std::move(parsed.end_points);
    }
    RETURN_IF_ERROR(internal::CheckEtcdOptions(options));
    ASSIGN_OR_RETURN(std::shared_ptr<EtcdLoop> loop, EtcdLoop::OfProcess());
    auto follower = std::make_unique<EtcdFollower>(
        *loop, std::move(parsed.prefix), std::move(options),
        std::move(on_result));
    return std::make_unique<EtcdResolver>(std::move(loop), std::move(follower));
  }

 private:
  const EtcdOptions options_;
};

}  // namespace

std::shared_ptr<ResolverFactory> NewEtcdResolvers(const EtcdOptions& options) {
  return std::make_shared<EtcdResolvers>(options);
}

}  // namespace verbena
