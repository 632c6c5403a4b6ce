// Gives a server that is new, or back, its share of the calls by degrees.

#ifndef VERBENA_RPC_INTERNAL_SERVICE_SLOW_START_H_
#define VERBENA_RPC_INTERNAL_SERVICE_SLOW_START_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rpc/balancer.h"

namespace verbena::internal {

// The slowStartConfig of a policy, above that policy: where that has picked a
// server which has been there for less than the window, it picks once more, the
// more surely the newer the server is. The time goes by the calls that end.
class SlowStart final : public Balancer {
 public:
  struct Options {
    absl::Duration window;
    // The share of its calls that a server has at the very beginning.
    uint32_t min_percent = 10;
  };

  SlowStart(Options options, std::unique_ptr<Balancer> child, uint64_t seed)
      : options_(options),
        child_(std::move(child)),
        random_(static_cast<uint32_t>(seed)) {}

  void SetServers(absl::Span<Server* const> servers) override;
  size_t Pick(const Call& call) override {
    const size_t picked = child_->Pick(call);
    return warming_ == 0 || Takes(picked) ? picked : child_->Pick(call);
  }
  bool wants_results() const override { return true; }
  void OnResult(size_t position, const Result& result) override;

 private:
  static constexpr uint32_t kFull = 1 << 16;

  bool Takes(size_t position) {
    return shares_[position] >= kFull || random_() % kFull < shares_[position];
  }
  void Update(absl::Time now);

  const Options options_;
  const std::unique_ptr<Balancer> child_;
  std::minstd_rand random_;
  // When each was seen first; InfiniteFuture() until a call ends.
  std::map<std::string, absl::Time> since_;
  std::vector<absl::Time*> since_at_;
  std::vector<uint32_t> shares_;           // Parts of kFull.
  size_t warming_ = 0;                     // Those with less than that.
  absl::Time now_ = absl::InfinitePast();  // The time of the last result.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVICE_SLOW_START_H_
