// Keeps calls away from servers that fail more than the others.

#ifndef VERBENA_RPC_INTERNAL_SERVICE_OUTLIER_DETECTION_H_
#define VERBENA_RPC_INTERNAL_SERVICE_OUTLIER_DETECTION_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rpc/balancer.h"

namespace verbena::internal {

// The policy outlier_detection (gRPC's proposal A50), above another policy,
// which sees only the servers that are not ejected. Each interval it compares
// the servers' calls, and ejects those that stand out. An ejected server is
// back after a time that grows each time.
//
// The last server is never ejected, whatever the percentages allow.
class OutlierDetection final : public Balancer {
 public:
  // When a rule looks at a server, and how surely it ejects.
  struct Rule {
    uint32_t enforcement_percentage = 100;
    // The rule is silent while fewer servers than this had `request_volume`
    // calls in the interval.
    uint32_t minimum_hosts = 5;
    uint32_t request_volume = 50;
  };
  struct SuccessRate {
    Rule rule{.request_volume = 100};
    // In thousandths of the standard deviation below the mean.
    uint32_t stdev_factor = 1900;
  };
  struct FailurePercentage {
    Rule rule = {};
    uint32_t threshold = 85;
  };
  // Not in A50: so many failures after one another eject at once.
  struct ConsecutiveFailures {
    uint32_t threshold = 5;
    uint32_t enforcement_percentage = 100;
  };
  // Not in A50: calls take this much longer than at the median server.
  struct Latency {
    Rule rule{.minimum_hosts = 3};
    uint32_t factor_percent = 300;
  };
  // The fields of the service config, with A50's defaults.
  struct Options {
    absl::Duration interval = absl::Seconds(10);
    absl::Duration base_ejection_time = absl::Seconds(30);
    absl::Duration max_ejection_time = absl::Seconds(300);
    uint32_t max_ejection_percent = 10;
    std::optional<SuccessRate> success_rate = std::nullopt;
    std::optional<FailurePercentage> failure_percentage = std::nullopt;
    std::optional<ConsecutiveFailures> consecutive_failures = std::nullopt;
    std::optional<Latency> latency = std::nullopt;
  };

  OutlierDetection(const Options& options, std::unique_ptr<Balancer> child,
                   uint64_t seed)
      : options_(options),
        child_(std::move(child)),
        random_(static_cast<uint32_t>(seed)) {}

  void SetServers(absl::Span<Server* const> servers) override;
  size_t Pick(const Call& call) override {
    const size_t picked = child_->Pick(call);
    // A policy of the user may pick what is not there.
    return taken_[picked < taken_.size() ? picked : 0];
  }
  bool wants_results() const override { return true; }
  void OnResult(size_t position, const Result& result) override;

 private:
  static constexpr size_t kNotTaken = SIZE_MAX;

  // A server, or one that was there and is ejected, or was.
  struct Host {
    // Since the interval began.
    uint32_t succeeded = 0;
    uint32_t failed = 0;
    uint32_t timed = 0;
    absl::Duration latency_sum;

    uint32_t failures_in_a_row = 0;
    bool ejected = false;
    absl::Time ejected_at;
    // How many times the base time it was ejected for.
    int64_t multiplier = 0;

    uint32_t calls() const { return succeeded + failed; }
    double success_rate() const {
      return static_cast<double>(succeeded) / calls();
    }
  };

  // The servers of servers_ with enough calls for `rule`; none if they are too
  // few.
  std::vector<Host*> Candidates(const Rule& rule);
  void EndInterval(absl::Time now);
  void EjectBySuccessRate(const SuccessRate& by, absl::Time now);
  void EjectByFailurePercentage(const FailurePercentage& by, absl::Time now);
  void EjectByLatency(const Latency& by, absl::Time now);
  // Ejects unless so many are already, or luck is against it.
  void Eject(Host* host, uint32_t enforcement_percentage, absl::Time now);
  void ReturnEjected(absl::Time now);
  // Tells the child which servers are left.
  void TellChild();
  // TellChild(), if others are ejected than before.
  void TellChanges() {
    if (std::exchange(changed_, false)) TellChild();
  }

  const Options options_;
  const std::unique_ptr<Balancer> child_;
  std::minstd_rand random_;
  std::map<std::string, Host> hosts_;  // By address.
  std::vector<Server*> servers_;
  std::vector<Host*> host_at_;    // By position in servers_.
  std::vector<size_t> taken_;     // Positions of those that the child has.
  std::vector<size_t> child_at_;  // Their positions there, or kNotTaken.
  absl::Time interval_end_ = absl::InfinitePast();
  bool changed_ = false;  // Others are ejected than the child knows.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVICE_OUTLIER_DETECTION_H_
