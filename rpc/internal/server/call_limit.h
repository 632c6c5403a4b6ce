// The limits on the calls that a server has in work, and on those that stream.

#ifndef VERBENA_RPC_INTERNAL_SERVER_CALL_LIMIT_H_
#define VERBENA_RPC_INTERNAL_SERVER_CALL_LIMIT_H_

#include <atomic>
#include <cstdint>

namespace verbena::internal {

// Counts calls, for all pollers, if there is a limit. Thread-safe.
class CallLimit {
 public:
  // `most` 0: no limit.
  explicit CallLimit(int64_t most) : most_(most) {}

  int64_t most() const { return most_; }

  // Takes one more call. Returns false if there are as many as may be.
  bool Enter() {
    if (most_ == 0) return true;
    if (calls_.fetch_add(1, std::memory_order_relaxed) < most_) return true;
    Leave();
    return false;
  }
  // Gives the place of one call back.
  void Leave() {
    if (most_ != 0) calls_.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  const int64_t most_;
  std::atomic<int64_t> calls_{0};
};

// The limits of one server. A call whose method streams counts for both.
struct CallLimits {
  CallLimit calls;
  CallLimit streams;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVER_CALL_LIMIT_H_
