// Translates messages, metadata, statuses and deadlines between gRPC's types
// and Verbena's.

#ifndef VERBENA_TOOLS_GATEWAY_TRANSLATE_H_
#define VERBENA_TOOLS_GATEWAY_TRANSLATE_H_

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>
#include <grpcpp/support/string_ref.h>

#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/metadata.h"

namespace verbena::gateway {

// Convert the bytes of a message. ToGrpc() copies none of them. FromGrpc()
// copies them once, because gRPC may hold them in several pieces.
grpc::ByteBuffer ToGrpc(std::string bytes);
absl::StatusOr<std::string> FromGrpc(const grpc::ByteBuffer& buffer);

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

// Returns Verbena's metadata from gRPC's, without the keys of its transport.
using GrpcMetadata = std::multimap<grpc::string_ref, grpc::string_ref>;
Metadata FromGrpc(const GrpcMetadata& metadata);

// Returns gRPC's metadata from Verbena's, without the keys of a transport, and
// with keys in lower case. If gRPC cannot carry a pair, fails with INTERNAL and
// a message that names the pair, because gRPC would end the process.
using Pairs = std::vector<std::pair<std::string, std::string>>;
absl::StatusOr<Pairs> ToGrpc(const Metadata& metadata);

// Whether a key describes a connection or the library at its end, and not the
// call. The gateway does not pass such pairs on.
bool IsOfTransport(absl::string_view key);

// The deadline of a call that came by gRPC; InfiniteFuture() if it has none.
absl::Time DeadlineFromGrpc(std::chrono::system_clock::time_point deadline);

// Returns the error of a call whose message has an attachment, which gRPC
// cannot carry. `what` is "reply" or "request".
absl::Status AttachmentError(absl::string_view method, absl::string_view what,
                             size_t bytes);

}  // namespace verbena::gateway

#endif  // VERBENA_TOOLS_GATEWAY_TRANSLATE_H_
