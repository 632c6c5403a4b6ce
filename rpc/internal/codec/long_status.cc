#include "rpc/internal/codec/long_status.h"

#include <iterator>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "transport/base/limits.h"

namespace verbena::internal {
namespace {

// A character of UTF-8 has so many bytes behind its first one at the most.
constexpr size_t kMoreBytesMax = 3;

// Whether it is one of these.
bool GoesOn(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

}  // namespace

// Walks back to the beginning of the character that would be cut. If there is
// none near, the text is not UTF-8, and is cut where it is.
absl::string_view CutText(absl::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  size_t end = bytes;
  while (end > 0 && bytes - end < kMoreBytesMax && GoesOn(text[end])) --end;
  return text.substr(0, GoesOn(text[end]) ? bytes : end);
}

absl::Status CutMessage(const absl::Status& status, size_t bytes) {
  absl::Status cut(status.code(), CutText(status.message(), bytes));
  // Payloads are not part of the message, so they stay.
  status.ForEachPayload(
      [&cut](absl::string_view url, const absl::Cord& payload) {
        cut.SetPayload(url, payload);
      });
  return cut;
}

// Removes the library's pair in any case, so that the user never sees it. Then
// checks that a server may have sent it.
absl::StatusOr<std::string> TakeStatusRest(size_t head_bytes,
                                           Metadata* trailing) {
  const auto [begin, end] = trailing->equal_range(kStatusRestKey);
  if (begin == end) return std::string();
  std::string rest = std::move(begin->second);
  const bool several = std::next(begin) != end;
  trailing->erase(begin, end);
  if (several) {
    return absl::InternalError(
        "the server sent the rest of its status message twice");
  }
  if (head_bytes != transport::kMaxStatusMessageBytes) {
    return absl::InternalError(
        absl::StrCat("the server sent the rest of a status message (",
                     rest.size(), " bytes) after only ", head_bytes,
                     " bytes of it; the first part must have ",
                     transport::kMaxStatusMessageBytes));
  }
  return rest;
}

}  // namespace verbena::internal
