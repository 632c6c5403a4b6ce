// From what users set to what the transport takes.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_ENDPOINT_LIMITS_H_
#define VERBENA_RPC_INTERNAL_CLIENT_ENDPOINT_LIMITS_H_

#include "absl/status/statusor.h"
#include "rpc/channel_options.h"
#include "transport/base/endpoint_options.h"

namespace verbena::internal {

// INVALID_ARGUMENT, naming the field, if one is out of range.
absl::StatusOr<transport::EndpointOptions> ToEndpointOptions(
    const ChannelOptions& options);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_ENDPOINT_LIMITS_H_
