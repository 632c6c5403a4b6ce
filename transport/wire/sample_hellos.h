// Private data for tests, and decoders that a sanitizer watches.

#ifndef VERBENA_TRANSPORT_WIRE_SAMPLE_HELLOS_H_
#define VERBENA_TRANSPORT_WIRE_SAMPLE_HELLOS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "transport/wire/hello.h"

namespace verbena::transport {

// Calls `decode` on a heap copy of exactly the size of `bytes`, so that a
// sanitizer sees reads outside of it.
template <typename Decode>
auto Exactly(absl::string_view bytes, Decode decode) {
  const std::unique_ptr<uint8_t[]> copy(new uint8_t[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), copy.get());
  return decode(absl::Span<const uint8_t>(copy.get(), bytes.size()));
}

inline absl::StatusOr<ConnectRequest> Request(absl::string_view bytes) {
  return Exactly(bytes, &DecodeConnectRequest);
}
inline absl::StatusOr<ConnectReply> Reply(absl::string_view bytes) {
  return Exactly(bytes, &DecodeConnectReply);
}
inline absl::StatusOr<Reject> Rejection(absl::string_view bytes) {
  return Exactly(bytes, &DecodeReject);
}
inline absl::StatusOr<std::vector<HelloOption>> Options(
    absl::string_view bytes) {
  return Exactly(bytes, &DecodeOptions);
}

inline ConnectRequest SomeRequest() {
  return {.limits = {.buffer_bytes = 0x13121110,
                     .credits = 0x2120,
                     .max_open_calls = 0x3130,
                     .max_receive_message_bytes = 0x43424140,
                     .max_metadata_bytes = 0x4544},
          .arena = {.address = 0x5756555453525150,
                    .bytes = 0x6766656463626160,
                    .rkey = 0x73727170}};
}

inline std::string SomeReject() {
  return EncodeReject({.reason = RejectReason::kFull, .text = "full"});
}

inline std::string With(std::string bytes, size_t offset,
                        absl::string_view value) {
  return bytes.replace(offset, value.size(), value.data(), value.size());
}

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_WIRE_SAMPLE_HELLOS_H_
