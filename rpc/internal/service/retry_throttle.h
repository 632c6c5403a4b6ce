// Stops retries where most calls fail.

#ifndef VERBENA_RPC_INTERNAL_SERVICE_RETRY_THROTTLE_H_
#define VERBENA_RPC_INTERNAL_SERVICE_RETRY_THROTTLE_H_

#include <algorithm>
#include <cstdint>

#include "rpc/internal/service/service_config.h"

namespace verbena::internal {

// Counts as gRPC's proposal A6 has it: a failure takes a token, a success gives
// a part of one back, and calls are tried again while more than half are there.
// Counts thousandths of tokens, as the proposal does, because sums of fractions
// in binary might end above the half where the exact sum does not. For one
// thread at a time.
class RetryThrottle {
 public:
  // Tokens that are missing stay missing, in proportion. Null: no bound.
  void Configure(const RetryThrottling* throttling) {
    const RetryThrottling next =
        throttling != nullptr ? *throttling : RetryThrottling();
    tokens_ = bounds_.max_tokens > 0
                  ? tokens_ * next.max_tokens / bounds_.max_tokens
                  : next.max_tokens;
    bounds_ = next;
  }

  void NoteSuccess() {
    tokens_ = std::min(tokens_ + bounds_.token_ratio, bounds_.max_tokens);
  }
  // Returns whether what has failed may be tried again.
  bool NoteFailure() {
    tokens_ = std::max<int64_t>(tokens_ - kThousandths, 0);
    return allows();
  }
  bool allows() const {
    return bounds_.max_tokens == 0 || tokens_ > bounds_.max_tokens / 2;
  }

 private:
  RetryThrottling bounds_;
  int64_t tokens_ = 0;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVICE_RETRY_THROTTLE_H_
