// The metadata with which client and server speak of attempts (gRPC's A6).

#ifndef VERBENA_RPC_INTERNAL_CLIENT_PUSHBACK_H_
#define VERBENA_RPC_INTERNAL_CLIENT_PUSHBACK_H_

#include <cstdint>
#include <iterator>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "rpc/metadata.h"

namespace verbena::internal {

// How many attempts of a call there were before this one.
inline constexpr char kPreviousAttemptsKey[] = "grpc-previous-rpc-attempts";

struct Pushback {
  bool never = false;
  std::optional<absl::Duration> wait;
};

// Reads gRPC's key in trailing metadata: a number of milliseconds. Anything but
// a number that is not negative means never. The last of several values counts,
// as in gRPC.
inline Pushback ReadPushback(const Metadata& trailing) {
  const auto [first, end] = trailing.equal_range("grpc-retry-pushback-ms");
  if (first == end) return {};
  const auto found = std::prev(end);
  int64_t wait_ms = 0;
  if (!absl::SimpleAtoi(found->second, &wait_ms) || wait_ms < 0) {
    return {.never = true, .wait = std::nullopt};
  }
  return {.never = false, .wait = absl::Milliseconds(wait_ms)};
}

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_PUSHBACK_H_
