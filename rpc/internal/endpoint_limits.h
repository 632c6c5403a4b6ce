// From what users set to what the transport takes.

#ifndef VERBENA_RPC_INTERNAL_ENDPOINT_LIMITS_H_
#define VERBENA_RPC_INTERNAL_ENDPOINT_LIMITS_H_

#include <climits>
#include <cstdint>

#include "absl/status/statusor.h"
#include "rpc/channel_options.h"
#include "transport/base/endpoint_options.h"

namespace verbena::internal {

// Protobuf counts the bytes of a message in an int.
inline constexpr uint64_t kLongestMessageBytes = INT_MAX;

// INVALID_ARGUMENT, naming the field, if one is out of range.
absl::StatusOr<transport::EndpointOptions> ToEndpointOptions(
    const ChannelOptions& options);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_ENDPOINT_LIMITS_H_
