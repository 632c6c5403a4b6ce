#include "tools/rpc_bench/payload.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_format.h"

namespace verbena::bench {

std::string Payload(uint64_t size_bytes) {
  std::string payload(size_bytes, '\0');
  for (size_t i = 0; i < payload.size(); ++i) {
    payload[i] = static_cast<char>(i * 31 + (i >> 8) * 17);
  }
  return payload;
}

void Stamp(uint64_t number, absl::Span<uint8_t> payload) {
  if (payload.empty()) return;
  std::memcpy(payload.data(), &number,
              std::min(payload.size(), sizeof(number)));
}

absl::Status CheckEcho(absl::Span<const uint8_t> got,
                       absl::Span<const uint8_t> want, bool contents) {
  if (got.size() != want.size()) {
    return absl::DataLossError(
        absl::StrFormat("%d bytes came back of %d", got.size(), want.size()));
  }
  if (contents && !std::equal(got.begin(), got.end(), want.begin())) {
    return absl::DataLossError("other bytes came back than were sent");
  }
  return absl::OkStatus();
}

}  // namespace verbena::bench
