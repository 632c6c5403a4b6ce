// What gRPC and Verbena say in different words: messages, metadata, statuses.

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

// The bytes of a message. ToGrpc() copies none; the other way they are copied
// once, because gRPC's need not lie in one piece.
grpc::ByteBuffer ToGrpc(std::string bytes);
absl::StatusOr<std::string> FromGrpc(const grpc::ByteBuffer& buffer);

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

// gRPC's metadata without what belongs to its transport.
using GrpcMetadata = std::multimap<grpc::string_ref, grpc::string_ref>;
Metadata FromGrpc(const GrpcMetadata& metadata);

// The same for gRPC, in which keys have no upper case: it becomes lower case.
// INTERNAL, in words that name the pair, if gRPC cannot carry one of them: it
// would end the process.
using Pairs = std::vector<std::pair<std::string, std::string>>;
absl::StatusOr<Pairs> ToGrpc(const Metadata& metadata);

// Whether a key says something of one connection, or of the library at its end,
// and not of the call: such pairs are not passed on.
bool IsOfTransport(absl::string_view key);

// The deadline of a call that came by gRPC; InfiniteFuture() if it has none.
absl::Time DeadlineFromGrpc(std::chrono::system_clock::time_point deadline);

// What a message carries beside it can't be passed on. `what` is "reply" or
// "request".
absl::Status AttachmentError(absl::string_view method, absl::string_view what,
                             size_t bytes);

}  // namespace verbena::gateway

#endif  // VERBENA_TOOLS_GATEWAY_TRANSLATE_H_
