#include "rpc/internal/client/endpoint_limits.h"

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rpc/internal/codec/protobuf_codec.h"
#include "transport/base/limits.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {
namespace {

static_assert(kLongestMessageBytes <= transport::kMaxMessageBytes);

// A channel looks at all its servers when one of them changes.
constexpr int kMaxServers = 100'000;
// With the most calls of a connection, a million calls at once.
constexpr int kMaxConnectionsPerAddress = 64;

absl::Status Invalid(absl::string_view field, absl::string_view value,
                     absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat(
      "ChannelOptions::", field, " is ", value, ", must be ", wanted));
}

// In gRPC -1 stands for no limit.
uint64_t MessageLimit(uint64_t bytes) {
  return bytes == static_cast<uint64_t>(-1) ? kLongestMessageBytes : bytes;
}

absl::Status CheckBytes(absl::string_view field, uint64_t bytes) {
  if (MessageLimit(bytes) <= kLongestMessageBytes) return absl::OkStatus();
  return Invalid(field, absl::StrCat(bytes),
                 absl::StrCat("-1 or at most ", kLongestMessageBytes));
}

absl::Status CheckPositive(absl::string_view field, absl::Duration value) {
  if (value > absl::ZeroDuration()) return absl::OkStatus();
  return Invalid(field, absl::FormatDuration(value), "positive");
}

template <typename T>
absl::Status CheckNoNull(absl::string_view field,
                         const std::vector<std::shared_ptr<T>>& factories) {
  for (size_t i = 0; i < factories.size(); ++i) {
    if (factories[i] == nullptr) {
      return Invalid(absl::StrCat(field, "[", i, "]"), "null", "a factory");
    }
  }
  return absl::OkStatus();
}

// Names the first field that is wrong, with its value and its range.
absl::Status Check(const ChannelOptions& options) {
  RETURN_IF_ERROR(CheckNoNull("interceptors", options.interceptors));
  RETURN_IF_ERROR(CheckNoNull("resolvers", options.resolvers));
  RETURN_IF_ERROR(CheckNoNull("balancers", options.balancers));
  RETURN_IF_ERROR(
      CheckBytes("max_send_message_bytes", options.max_send_message_bytes));
  RETURN_IF_ERROR(CheckBytes("max_receive_message_bytes",
                             options.max_receive_message_bytes));
  if (options.dscp < -1 || options.dscp > transport::kDscpMax) {
    return Invalid("dscp", absl::StrCat(options.dscp),
                   absl::StrCat("-1 or at most ", transport::kDscpMax));
  }
  if (options.max_paths < 0 ||
      options.max_paths > static_cast<int>(transport::kServerAddressesMax)) {
    return Invalid("max_paths", absl::StrCat(options.max_paths),
                   absl::StrCat("from 0 to ", transport::kServerAddressesMax));
  }
  if (options.max_connections_per_address < 1 ||
      options.max_connections_per_address > kMaxConnectionsPerAddress) {
    return Invalid("max_connections_per_address",
                   absl::StrCat(options.max_connections_per_address),
                   absl::StrCat("from 1 to ", kMaxConnectionsPerAddress));
  }
  if (options.max_servers < 0 || options.max_servers > kMaxServers) {
    return Invalid("max_servers", absl::StrCat(options.max_servers),
                   absl::StrCat("from 0 to ", kMaxServers));
  }
  if (options.client_number < -1) {
    return Invalid("client_number", absl::StrCat(options.client_number),
                   "-1 or more");
  }
  if (options.max_metadata_bytes > transport::kMaxMetadataBytes) {
    return Invalid("max_metadata_bytes",
                   absl::StrCat(options.max_metadata_bytes),
                   absl::StrCat("at most ", transport::kMaxMetadataBytes));
  }
  if (options.max_concurrent_calls == 0 ||
      options.max_concurrent_calls > transport::kMaxOpenCalls) {
    return Invalid("max_concurrent_calls",
                   absl::StrCat(options.max_concurrent_calls),
                   absl::StrCat("from 1 to ", transport::kMaxOpenCalls));
  }
  // Arenas that could not hold the longest request beside the longest reply
  // would never serve such a call.
  const uint64_t both = MessageLimit(options.max_send_message_bytes) +
                        MessageLimit(options.max_receive_message_bytes);
  if (options.max_arena_bytes != 0 && options.max_arena_bytes < both) {
    return Invalid(
        "max_arena_bytes", absl::StrCat(options.max_arena_bytes),
        absl::StrCat("0, or at least the sum of the message limits, ", both));
  }
  if (options.spin_budget < absl::ZeroDuration()) {
    return Invalid("spin_budget", absl::FormatDuration(options.spin_budget),
                   "0 or more");
  }
  RETURN_IF_ERROR(CheckPositive("memory_idle_time", options.memory_idle_time));
  RETURN_IF_ERROR(CheckPositive("idle_timeout", options.idle_timeout));
  RETURN_IF_ERROR(CheckPositive("connect_timeout", options.connect_timeout));
  RETURN_IF_ERROR(CheckPositive("initial_backoff", options.initial_backoff));
  RETURN_IF_ERROR(
      CheckPositive("rdma_retry_interval", options.rdma_retry_interval));
  if (options.max_backoff < options.initial_backoff) {
    return Invalid("max_backoff", absl::FormatDuration(options.max_backoff),
                   "at least initial_backoff");
  }
  RETURN_IF_ERROR(CheckPositive("keepalive_time", options.keepalive_time));
  return CheckPositive("keepalive_timeout", options.keepalive_timeout);
}

}  // namespace

// Copies the options after they are checked. SetDefaultMemory() derives the
// arenas from the message limits, so it follows these and precedes the user's
// own size.
absl::StatusOr<transport::EndpointOptions> ToEndpointOptions(
    const ChannelOptions& options) {
  RETURN_IF_ERROR(Check(options));
  transport::EndpointOptions endpoint;
  endpoint.device = options.device;
  endpoint.dscp = options.dscp;
  endpoint.ask_addresses = options.max_paths != 1;
  endpoint.max_receive_message_bytes =
      MessageLimit(options.max_receive_message_bytes);
  endpoint.max_send_message_bytes =
      MessageLimit(options.max_send_message_bytes);
  endpoint.max_metadata_bytes = options.max_metadata_bytes;
  endpoint.max_open_calls = options.max_concurrent_calls;
  transport::SetDefaultMemory(&endpoint);
  if (options.max_arena_bytes != 0) {
    endpoint.max_arena_bytes = options.max_arena_bytes;
  }
  endpoint.memory_floor_bytes = options.memory_floor_bytes;
  endpoint.memory_idle_time = options.memory_idle_time;
  endpoint.revoke_leases = options.revoke_leases;
  endpoint.spin_budget = options.spin_budget;
  endpoint.checksum = options.checksum;
  endpoint.connect_timeout = options.connect_timeout;
  endpoint.keepalive_time = options.keepalive_time;
  endpoint.keepalive_timeout = options.keepalive_timeout;
  return endpoint;
}

}  // namespace verbena::internal
