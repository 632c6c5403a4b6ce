#include "rpc/internal/service/weighted_round_robin.h"

#include <algorithm>
#include <cmath>

namespace verbena::internal {
namespace {

// Bounds as parts of the mean weight. A server cannot draw all calls by what it
// reports, nor lose all of its own. gRPC has the same.
constexpr double kLeastShare = 0.1;
constexpr double kLargestShare = 10;

}  // namespace

// A server that was away begins anew: its load then says nothing of now.
void WeightedRoundRobin::SetServers(absl::Span<Server* const> servers) {
  servers_.assign(servers.begin(), servers.end());
  std::map<std::string, Load> known = std::exchange(loads_, {});
  load_at_.clear();
  for (const Server* server : servers_) {
    const std::string& address = server->address().address;
    load_at_.push_back(&(loads_[address] = known[address]));
  }
  Update(now_);
}

void WeightedRoundRobin::OnResult(size_t position, const Result& result) {
  now_ = result.time;
  if (const LoadReport* const report = result.load; report != nullptr) {
    const double used = report->application_utilization > 0
                            ? report->application_utilization
                            : report->cpu_utilization;
    const double rate = report->requests_per_second;
    if (used > 0 && rate > 0) {
      Load& load = *load_at_[position];
      const double errors = report->errors_per_second / rate;
      const double weight = rate / (used + errors * options_.error_penalty);
      if (std::isfinite(weight) && weight > 0) {
        load.weight = weight;
        load.first = std::min(load.first, now_);
        load.last = now_;
      }
    }
  }
  if (now_ >= next_update_) Update(now_);
}

// A server that has not reported for long begins anew with its next report.
double WeightedRoundRobin::UsableWeight(const Load& load,
                                        absl::Time now) const {
  if (now - load.last >= options_.expiration_period) return 0;
  return now - load.first >= options_.blackout_period ? load.weight : 0;
}

void WeightedRoundRobin::Update(absl::Time now) {
  next_update_ = now + options_.update_period;
  std::vector<double> weights;
  size_t reported = 0;
  double sum = 0;
  for (Load* load : load_at_) {
    if (now - load->last >= options_.expiration_period) *load = Load();
    weights.push_back(UsableWeight(*load, now));
    reported += weights.back() > 0 ? 1 : 0;
    sum += weights.back();
  }
  const double mean = sum / static_cast<double>(std::max<size_t>(reported, 1));
  const bool by_load = reported >= 2 && std::isfinite(mean);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!by_load) {
      weights[i] = servers_[i]->address().weight;
    } else if (weights[i] == 0) {
      weights[i] = mean;
    } else {
      weights[i] =
          std::clamp(weights[i], mean * kLeastShare, mean * kLargestShare);
    }
    servers_[i]->set_load_weight(by_load ? weights[i] : 0);
  }
  const double largest =
      weights.empty() ? 1 : *std::max_element(weights.begin(), weights.end());
  weights_.clear();
  for (const double weight : weights) {
    weights_.push_back(static_cast<uint32_t>(
        std::clamp(weight / largest * kFull, 1.0, double{kFull})));
  }
}

// The loop ends after one round, because a server with the full weight is taken
// in every turn.
size_t WeightedRoundRobin::Pick(const Call& /*call*/) {
  for (;;) {
    const size_t position = turn_ % weights_.size();
    const uint64_t round = turn_ / weights_.size();
    ++turn_;
    const uint64_t weight = weights_[position];
    const uint64_t begin = position * kFull / weights_.size();
    if ((round * weight + begin) % kFull >= kFull - weight) return position;
  }
}

}  // namespace verbena::internal
