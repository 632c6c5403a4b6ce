#include "transport/base/endpoint_options.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"

namespace verbena::transport {
namespace {

absl::Status CheckPositive(absl::Duration value, const char* name) {
  if (value > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " must be positive, not ", absl::FormatDuration(value)));
}

absl::Status CheckMessageLimit(uint64_t bytes, const char* name) {
  if (bytes > 0 && bytes <= kMaxMessageBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " must be from 1 to ", kMaxMessageBytes, ", not ", bytes));
}

absl::Status CheckRange(uint32_t value, uint32_t least, uint32_t most,
                        const char* name) {
  if (least <= value && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " must be from ", least, " to ", most, ", not ", value));
}

// Memory comes in powers of two, so a message may take up to twice its size.
// REQUIRES: CheckMessageLimit() accepts the message.
absl::Status CheckMemory(uint64_t bytes, uint64_t message, const char* name) {
  const uint64_t least =
      // Pools begin with a region of one of these sizes, so fewer bytes cannot
      // be registered.
      std::max(std::max(kFirstArenaBytes, kFirstBulkRegionBytes),
               std::bit_ceil(message));
  if (bytes >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", bytes, ", too little for a message of ",
                   message, " bytes: at least ", least, " are needed"));
}

}  // namespace

void SetDefaultMemory(EndpointOptions* options) {
  // Rounded up as the pools do: see CheckMemory().
  options->max_arena_bytes = options->max_bulk_bytes =
      std::max(kDefaultLargeBytes,
               2 * (std::bit_ceil(options->max_send_message_bytes) +
                    std::bit_ceil(options->max_receive_message_bytes)));
}

// Checks the limits of messages first, because CheckMemory() rounds them up to
// powers of two and relies on their range.
absl::Status CheckOptions(const EndpointOptions& options) {
  for (const absl::Status& status :
       {CheckMessageLimit(options.max_receive_message_bytes,
                          "max_receive_message_bytes"),
        CheckMessageLimit(options.max_send_message_bytes,
                          "max_send_message_bytes")}) {
    if (!status.ok()) return status;
  }
  for (const absl::Status& status :
       {CheckMemory(options.max_arena_bytes, options.max_send_message_bytes,
                    "max_arena_bytes"),
        CheckMemory(options.max_arena_bytes, options.max_receive_message_bytes,
                    "max_arena_bytes"),
        CheckMemory(options.max_bulk_bytes, options.max_receive_message_bytes,
                    "max_bulk_bytes"),
        CheckRange(options.max_metadata_bytes, 0, kMaxMetadataBytes,
                   "max_metadata_bytes"),
        CheckRange(options.max_open_calls, 1, kMaxOpenCalls, "max_open_calls"),
        CheckPositive(options.memory_idle_time, "memory_idle_time"),
        CheckPositive(options.connect_timeout, "connect_timeout"),
        CheckPositive(options.keepalive_time, "keepalive_time"),
        CheckPositive(options.keepalive_timeout, "keepalive_timeout"),
        CheckPositive(options.stall_timeout, "stall_timeout")}) {
    if (!status.ok()) return status;
  }
  if (options.dscp < -1 || options.dscp > kDscpMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "dscp is ", options.dscp, ", must be -1 or at most ", kDscpMax));
  }
  // Zero is valid: a poller then never spins.
  if (options.spin_budget < absl::ZeroDuration()) {
    return absl::InvalidArgumentError("spin_budget must not be negative");
  }
  return absl::OkStatus();
}

}  // namespace verbena::transport
