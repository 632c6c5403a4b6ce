#include "rpc/internal/service/outlier_detection.h"

#include <algorithm>
#include <cmath>

namespace verbena::internal {

// A server that is away for a moment is not forgiven for it.
void OutlierDetection::SetServers(absl::Span<Server* const> servers) {
  servers_.assign(servers.begin(), servers.end());
  std::map<std::string, Host> known = std::exchange(hosts_, {});
  host_at_.clear();
  for (const Server* server : servers_) {
    const std::string& address = server->address().address;
    host_at_.push_back(&(hosts_[address] = known[address]));
    known.erase(address);
  }
  for (auto& [address, host] : known) {
    if (host.multiplier > 0) hosts_.emplace(address, host);
  }
  TellChild();
}

// If all servers are ejected because the others have left, takes the first.
void OutlierDetection::TellChild() {
  if (!host_at_.empty() &&
      std::all_of(host_at_.begin(), host_at_.end(),
                  [](const Host* host) { return host->ejected; })) {
    host_at_.front()->ejected = false;
  }
  taken_.clear();
  child_at_.assign(servers_.size(), kNotTaken);
  std::vector<Server*> taken;
  for (size_t i = 0; i < servers_.size(); ++i) {
    servers_[i]->set_ejected(host_at_[i]->ejected);
    if (host_at_[i]->ejected) continue;
    child_at_[i] = taken_.size();
    taken_.push_back(i);
    taken.push_back(servers_[i]);
  }
  child_->SetServers(taken);
}

void OutlierDetection::OnResult(size_t position, const Result& result) {
  if (child_at_[position] != kNotTaken && child_->wants_results()) {
    child_->OnResult(child_at_[position], result);
  }
  Host& host = *host_at_[position];
  if (result.latency > absl::ZeroDuration()) {
    ++host.timed;
    host.latency_sum += result.latency;
  }
  if (result.code == absl::StatusCode::kOk) {
    ++host.succeeded;
    host.failures_in_a_row = 0;
  } else {
    ++host.failed;
    ++host.failures_in_a_row;
  }
  const auto& in_a_row = options_.consecutive_failures;
  if (in_a_row.has_value() && host.failures_in_a_row >= in_a_row->threshold &&
      !host.ejected) {
    host.failures_in_a_row = 0;
    Eject(&host, in_a_row->enforcement_percentage, result.time);
    TellChanges();
  }
  if (interval_end_ == absl::InfinitePast()) {
    interval_end_ = result.time + options_.interval;
  } else if (result.time >= interval_end_) {
    EndInterval(result.time);
  }
}

// In A50's order: the rules, then the ejected whose time has come.
void OutlierDetection::EndInterval(absl::Time now) {
  interval_end_ = now + options_.interval;
  if (options_.success_rate.has_value()) {
    EjectBySuccessRate(*options_.success_rate, now);
  }
  if (options_.failure_percentage.has_value()) {
    EjectByFailurePercentage(*options_.failure_percentage, now);
  }
  if (options_.latency.has_value()) EjectByLatency(*options_.latency, now);
  ReturnEjected(now);
  for (auto& [address, host] : hosts_) {
    host.succeeded = host.failed = host.timed = 0;
    host.latency_sum = absl::ZeroDuration();
  }
  TellChanges();
}

std::vector<OutlierDetection::Host*> OutlierDetection::Candidates(
    const Rule& rule) {
  std::vector<Host*> candidates;
  for (Host* host : host_at_) {
    if (host->calls() > 0 && host->calls() >= rule.request_volume) {
      candidates.push_back(host);
    }
  }
  if (candidates.size() < rule.minimum_hosts) candidates.clear();
  return candidates;
}

void OutlierDetection::EjectBySuccessRate(const SuccessRate& by,
                                          absl::Time now) {
  const std::vector<Host*> candidates = Candidates(by.rule);
  const auto count = static_cast<double>(candidates.size());
  double sum = 0;
  for (const Host* host : candidates) sum += host->success_rate();
  const double mean = sum / count;
  double squares = 0;
  for (const Host* host : candidates) {
    squares += std::pow(host->success_rate() - mean, 2);
  }
  const double least =
      mean - std::sqrt(squares / count) * by.stdev_factor / 1000;
  for (Host* host : candidates) {
    if (host->success_rate() < least) {
      Eject(host, by.rule.enforcement_percentage, now);
    }
  }
}

void OutlierDetection::EjectByFailurePercentage(const FailurePercentage& by,
                                                absl::Time now) {
  for (Host* host : Candidates(by.rule)) {
    if (100 * (1 - host->success_rate()) > by.threshold) {
      Eject(host, by.rule.enforcement_percentage, now);
    }
  }
}

void OutlierDetection::EjectByLatency(const Latency& by, absl::Time now) {
  const std::vector<Host*> candidates = Candidates(by.rule);
  if (candidates.empty()) return;
  std::vector<absl::Duration> means;
  for (const Host* host : candidates) {
    means.push_back(host->latency_sum / std::max<uint32_t>(host->timed, 1));
  }
  std::vector<absl::Duration> sorted = means;
  const auto middle = sorted.begin() + (sorted.size() - 1) / 2;
  std::nth_element(sorted.begin(), middle, sorted.end());
  const absl::Duration most = *middle * by.factor_percent / 100;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (means[i] > most) {
      Eject(candidates[i], by.rule.enforcement_percentage, now);
    }
  }
}

void OutlierDetection::Eject(Host* host, uint32_t enforcement_percentage,
                             absl::Time now) {
  if (host->ejected) return;
  const size_t ejected =
      std::count_if(host_at_.begin(), host_at_.end(),
                    [](const Host* h) { return h->ejected; });
  if (100 * ejected >= options_.max_ejection_percent * host_at_.size() ||
      ejected + 1 >= host_at_.size() ||
      random_() % 100 >= enforcement_percentage) {
    return;
  }
  host->ejected = changed_ = true;
  host->ejected_at = now;
  ++host->multiplier;
}

// Hosts that have left are forgotten when they have nothing to answer for.
void OutlierDetection::ReturnEjected(absl::Time now) {
  const absl::Duration longest =
      std::max(options_.base_ejection_time, options_.max_ejection_time);
  for (auto& [address, host] : hosts_) {
    if (!host.ejected) {
      if (host.multiplier > 0) --host.multiplier;
    } else if (now >= host.ejected_at + std::min(options_.base_ejection_time *
                                                     host.multiplier,
                                                 longest)) {
      host.ejected = false;
      changed_ = true;
      host.failures_in_a_row = 0;
    }
  }
  std::erase_if(hosts_, [&](const auto& entry) {
    const Host* const host = &entry.second;
    return host->multiplier == 0 &&
           std::find(host_at_.begin(), host_at_.end(), host) == host_at_.end();
  });
}

}  // namespace verbena::internal
