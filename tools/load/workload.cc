#include "tools/load/workload.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace verbena::bench {

// Zero bytes are a multiple of everything, so they are left to the smallest
// unit.
std::string SizeName(uint64_t bytes) {
  if (bytes != 0 && bytes % (1 << 20) == 0) {
    return absl::StrCat(bytes >> 20, " MiB");
  }
  if (bytes != 0 && bytes % (1 << 10) == 0) {
    return absl::StrCat(bytes >> 10, " KiB");
  }
  return absl::StrCat(bytes, " B");
}

std::string Payload(uint64_t size_bytes) {
  std::string payload(size_bytes, '\0');
  for (size_t i = 0; i < payload.size(); ++i) {
    // The second term differs from block to block of 256 bytes.
    payload[i] = static_cast<char>(i * 31 + (i >> 8) * 17);
  }
  return payload;
}

absl::Status EchoCheck::CompareContents(absl::Span<const uint8_t> got,
                                        absl::Span<const uint8_t> sent) {
  // Lengths first, because std::equal() reads as much of the second as the
  // first has.
  if (got.size() != sent.size()) {
    return absl::DataLossError(
        absl::StrFormat("%d bytes came back of %d", got.size(), sent.size()));
  }
  if (!std::equal(got.begin(), got.end(), sent.begin())) {
    return absl::DataLossError("other bytes came back than were sent");
  }
  compared_ = true;
  return absl::OkStatus();
}

}  // namespace verbena::bench
