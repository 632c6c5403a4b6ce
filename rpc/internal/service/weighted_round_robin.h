// Takes one server after the other, each as often as its weight has it.

#ifndef VERBENA_RPC_INTERNAL_SERVICE_WEIGHTED_ROUND_ROBIN_H_
#define VERBENA_RPC_INTERNAL_SERVICE_WEIGHTED_ROUND_ROBIN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rpc/balancer.h"
#include "rpc/load_report.h"

namespace verbena::internal {

// The policy weighted_round_robin: by the load that servers report (gRPC's
// proposal A58), or while less than two report any, by the weights that the
// resolver gives.
//
// A server's weight by load is its rate of requests for each share of itself
// that it uses: what it would do if it were full. A server without a weight by
// load has the mean of the others'.
//
// Goes round like RoundRobin, and leaves a server out in so many of its turns
// as its weight is below the largest one: the turns that a server has had,
// times its share of the largest weight, rises by one where it is taken. A
// server is begun in the middle of its share, so that those of equal weight are
// not all left out in the same round.
class WeightedRoundRobin final : public Balancer {
 public:
  // The fields of the service config, with A58's defaults.
  struct Options {
    // For so long after its first report a server's load is not representative.
    absl::Duration blackout_period = absl::Seconds(10);
    // For so long a report counts.
    absl::Duration expiration_period = absl::Minutes(3);
    absl::Duration update_period = absl::Seconds(1);
    // How much an error counts more than a request.
    double error_penalty = 1;
  };

  WeightedRoundRobin(Options options, uint64_t seed)
      : options_(options), turn_(seed >> 32) {}

  void SetServers(absl::Span<Server* const> servers) override;
  size_t Pick(const Call& call) override;
  bool wants_results() const override { return true; }
  void OnResult(size_t position, const Result& result) override;

 private:
  // The largest weight, to which the others are scaled.
  static constexpr uint64_t kFull = 1 << 12;

  struct Load {
    double weight = 0;  // By the last report; 0 without one.
    absl::Time first = absl::InfiniteFuture();
    absl::Time last = absl::InfinitePast();
  };

  double UsableWeight(const Load& load, absl::Time now) const;
  void Update(absl::Time now);

  const Options options_;
  std::vector<Server*> servers_;
  std::map<std::string, Load> loads_;  // By address, for all servers_.
  std::vector<Load*> load_at_;         // By position.
  std::vector<uint32_t> weights_;  // Parts of kFull, which at least one has.
  uint64_t turn_;
  absl::Time next_update_ = absl::InfinitePast();
  absl::Time now_ = absl::InfinitePast();  // The time of the last result.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVICE_WEIGHTED_ROUND_ROBIN_H_
