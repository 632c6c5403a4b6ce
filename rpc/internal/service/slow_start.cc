#include "rpc/internal/service/slow_start.h"

#include <algorithm>

namespace verbena::internal {

void SlowStart::SetServers(absl::Span<Server* const> servers) {
  std::map<std::string, absl::Time> known = std::exchange(since_, {});
  since_at_.clear();
  for (const Server* server : servers) {
    const std::string& address = server->address().address;
    const auto found = known.find(address);
    since_[address] =
        found == known.end() ? absl::InfiniteFuture() : found->second;
    since_at_.push_back(&since_[address]);
  }
  Update(now_);
  child_->SetServers(servers);
}

// The clock of this class: the shares follow it in a hundred steps a window.
void SlowStart::OnResult(size_t position, const Result& result) {
  if (warming_ > 0 && result.time >= now_ + options_.window / 100) {
    now_ = result.time;
    for (absl::Time* since : since_at_) *since = std::min(*since, now_);
    Update(now_);
  }
  if (child_->wants_results()) child_->OnResult(position, result);
}

void SlowStart::Update(absl::Time now) {
  shares_.clear();
  warming_ = 0;
  for (const absl::Time* since : since_at_) {
    const double age = *since == absl::InfiniteFuture()
                           ? 0
                           : absl::FDivDuration(now - *since, options_.window);
    const double share = std::clamp(age, options_.min_percent / 100.0, 1.0);
    shares_.push_back(static_cast<uint32_t>(share * kFull));
    warming_ += shares_.back() < kFull ? 1 : 0;
  }
}

}  // namespace verbena::internal
