#include "tools/gateway/translate.h"

#include <grpc/grpc.h>
#include <grpc/slice.h>

#include <algorithm>
#include <cstddef>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/support/slice.h"
#include "rpc/status_details.h"

namespace verbena::gateway {
namespace {

absl::string_view View(const grpc::string_ref& text) {
  return {text.data(), text.size()};
}

// Returns which part of a pair gRPC cannot carry, or null.
const char* WhatIsIllegal(const std::string& key, const std::string& value) {
  const auto slice = [](const std::string& text) {
    return grpc_slice_from_static_buffer(text.data(), text.size());
  };
  if (grpc_header_key_is_legal(slice(key)) == 0) return "key";
  // gRPC encodes the values of such keys, so they may have any bytes.
  if (grpc_is_binary_header(slice(key)) != 0) return nullptr;
  return grpc_header_nonbin_value_is_legal(slice(value)) == 0 ? "value"
                                                              : nullptr;
}

}  // namespace

grpc::ByteBuffer ToGrpc(std::string bytes) {
  if (bytes.empty()) {
    // A ByteBuffer without a slice would not be a message.
    const grpc::Slice empty;
    return grpc::ByteBuffer(&empty, 1);
  }
  auto owner = std::make_unique<std::string>(std::move(bytes));
  char* const data = owner->data();
  const size_t size = owner->size();
  // The slice owns the string from here on, so no byte is copied.
  const grpc::Slice slice(
      data, size, [](void* kept) { delete static_cast<std::string*>(kept); },
      owner.release());
  return grpc::ByteBuffer(&slice, 1);
}

absl::StatusOr<std::string> FromGrpc(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  const grpc::Status dumped = buffer.Dump(&slices);
  if (!dumped.ok()) {
    return absl::InternalError(
        absl::StrCat("gRPC's message can't be read: ", dumped.error_message()));
  }
  std::string bytes;
  bytes.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// Details travel as metadata, under the same key at both sides.
grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()),
          std::string(status.message())};
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return {static_cast<absl::StatusCode>(status.error_code()),
          status.error_message()};
}

bool IsOfTransport(absl::string_view key) {
  // These two keys begin like reserved ones, but have a meaning for both ends.
  if (key == kStatusDetailsKey || key == "grpc-trace-bin") return false;
  return absl::StartsWith(key, ":") || absl::StartsWith(key, "grpc-") ||
         key == "content-type" || key == "te" || key == "user-agent" ||
         key == "host" || key == "accept-encoding";
}

Metadata FromGrpc(const GrpcMetadata& metadata) {
  Metadata pairs;
  for (const auto& [key, value] : metadata) {
    if (IsOfTransport(View(key))) continue;
    pairs.emplace(View(key), View(value));
  }
  return pairs;
}

// gRPC ends the process if it is given a pair that it cannot carry, so each is
// checked here.
absl::StatusOr<Pairs> ToGrpc(const Metadata& metadata) {
  Pairs pairs;
  for (const auto& [key, value] : metadata) {
    // HTTP/2 allows only lower case in names of headers.
    std::string lower = absl::AsciiStrToLower(key);
    if (IsOfTransport(lower)) continue;
    if (const char* const what = WhatIsIllegal(lower, value)) {
      return absl::InternalError(absl::StrCat(
          "metadata \"", absl::CEscape(key), "\": gRPC cannot carry its ", what,
          "; keys are of 0-9, a-z, \"_\", \"-\" and \".\", and values of "
          "printable ASCII, unless the key ends with \"-bin\""));
    }
    pairs.emplace_back(std::move(lower), value);
  }
  return pairs;
}

absl::Time DeadlineFromGrpc(std::chrono::system_clock::time_point deadline) {
  // gRPC's way to say that a call has no deadline.
  if (deadline == std::chrono::system_clock::time_point::max()) {
    return absl::InfiniteFuture();
  }
  return absl::FromChrono(deadline);
}

absl::Status AttachmentError(absl::string_view method, absl::string_view what,
                             size_t bytes) {
  return absl::UnimplementedError(
      absl::StrCat(method, ": the ", what, " has an attachment of ", bytes,
                   " bytes, and gRPC has no attachments; put the bytes into "
                   "the message, or call without the gateway"));
}

}  // namespace verbena::gateway
