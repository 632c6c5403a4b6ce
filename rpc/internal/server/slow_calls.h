// The slowest calls of late, for who looks at a server.

#ifndef VERBENA_RPC_INTERNAL_SERVER_SLOW_CALLS_H_
#define VERBENA_RPC_INTERNAL_SERVER_SLOW_CALLS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rpc/server_status.h"
#include "transport/base/cycle_rate.h"

namespace verbena::internal {

// Keeps the slowest calls of one poller that took longer than a millisecond and
// ended in the last minutes. IsSlow() is one comparison; Add() allocates
// nothing. Times are TSC values. Confined to one thread at a time.
class SlowCalls {
 public:
  static constexpr size_t kMost = 16;
  static constexpr uint64_t kLeastNanos = 1'000'000;
  static constexpr uint64_t kKeptNanos = 300'000'000'000;

  explicit SlowCalls(
      const base::CycleRate& rate = base::CycleRate::OfMachine());

  // Whether a call that took so long is to be kept.
  bool IsSlow(uint64_t cycles) const { return cycles > threshold_; }
  // Keeps a call that is, and ended at `now`, in the place of a faster one if
  // need be. Long names are cut.
  void Add(absl::string_view method, absl::string_view peer,
           absl::StatusCode code, uint64_t cycles, uint64_t now);
  // Forgets what is too old, and appends the others.
  void AppendTo(uint64_t now, std::vector<SlowCallStatus>* list);

 private:
  template <size_t kBytes>
  struct Text {
    void operator=(absl::string_view text) {
      size = text.copy(bytes.data(), kBytes);
    }
    absl::string_view view() const { return {bytes.data(), size}; }
    size_t size = 0;
    std::array<char, kBytes> bytes = {};
  };
  struct Call {
    Text<200> method;
    Text<64> peer;
    absl::StatusCode code = absl::StatusCode::kOk;
    uint64_t cycles = 0;
    uint64_t ended = 0;
  };

  void SetThreshold();

  const base::CycleRate& rate_;
  const uint64_t least_;  // kLeastNanos in cycles.
  uint64_t threshold_;
  size_t size_ = 0;  // Used entries of calls_.
  std::array<Call, kMost> calls_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVER_SLOW_CALLS_H_
