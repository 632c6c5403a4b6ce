// The encoding of a method's name, for servers that ask for it.
//
// The name goes as the first pair of the metadata, under a key of the library's
// own. The server needs it for calls of methods that it does not have, because
// the number on the wire says nothing about them.

#ifndef VERBENA_RPC_INTERNAL_CODEC_METHOD_NAME_H_
#define VERBENA_RPC_INTERNAL_CODEC_METHOD_NAME_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/metadata.h"

namespace verbena::internal {

// The key of the name, as in HTTP/2 and gRPC.
inline constexpr absl::string_view kMethodNameKey = ":path";

// The longest name that is accepted. Half of what metadata may take, and many
// times what people write.
inline constexpr size_t kMaxMethodNameBytes = 1024;

// OK if `name` can be that of a method: "package.Service/Method", of letters,
// digits, underscores and dots as a .proto allows them. INVALID_ARGUMENT, with
// what of it is fit to be shown, otherwise.
absl::Status CheckMethodName(absl::string_view name);

// Returns the bytes that WriteMethodName() will write.
uint32_t MethodNameBytes(absl::string_view name);

// Writes the pair; returns its end. REQUIRES: `name` is shorter than 64 KiB;
// there is room before `limit`, which a CHECK enforces.
uint8_t* WriteMethodName(absl::string_view name, uint8_t* out,
                         const uint8_t* limit);

// Removes what has kMethodNameKey from `*metadata`, and returns the first of
// it. NOT_FOUND if there is none; INVALID_ARGUMENT if that is no method's name,
// or not of the method that `method_id` stands for.
absl::StatusOr<std::string> TakeMethodName(uint64_t method_id,
                                           Metadata* metadata);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CODEC_METHOD_NAME_H_
