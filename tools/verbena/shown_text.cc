#include "tools/verbena/shown_text.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace verbena::tool {
namespace {

// A character that is no UTF-8, of one byte.
constexpr uint32_t kInvalid = UINT32_MAX;

// Reads the first character of `text`, which is not empty, and how many bytes
// it has. Overlong forms, surrogates and what ends too early are kInvalid.
uint32_t ReadCharacter(absl::string_view text, size_t* bytes) {
  const auto at = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = at(0);
  *bytes = 1;
  if (first < 0x80) return first;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  // 0xc0 and 0xc1 begin only overlong forms, and above 0xf4 there is no
  // Unicode.
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return kInvalid;
  uint32_t character = first & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0) != 0x80) return kInvalid;
    character = character << 6 | (at(i) & 0x3fu);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (character < kLeast[length] || character > 0x10ffff ||
      (character >= 0xd800 && character <= 0xdfff)) {
    return kInvalid;
  }
  *bytes = length;
  return character;
}

// Control characters could drive the terminal, and marks of direction could
// show text in another order than it has.
bool IsHarmless(uint32_t character) {
  if (character < 0x20 || character == kInvalid) return false;
  if (character >= 0x7f && character <= 0x9f) return false;
  // Marks of direction and line separators.
  return character != 0x61c && character != 0xfeff &&
         (character < 0x200b || character > 0x200f) &&
         (character < 0x2028 || character > 0x202e) &&
         (character < 0x2060 || character > 0x206f);
}

// Escapes whole characters that are harmful, and single bytes that are no
// UTF-8.
std::string Shown(absl::string_view text, bool newlines_stay) {
  std::string shown;
  while (!text.empty()) {
    size_t bytes = 0;
    const uint32_t character = ReadCharacter(text, &bytes);
    if (IsHarmless(character) || (newlines_stay && character == '\n')) {
      absl::StrAppend(&shown, text.substr(0, bytes));
    } else {
      for (const char byte : text.substr(0, bytes)) {
        absl::StrAppendFormat(&shown, "\\x%02x", static_cast<uint8_t>(byte));
      }
    }
    text.remove_prefix(bytes);
  }
  return shown;
}

}  // namespace

std::string ShownText(absl::string_view text) { return Shown(text, true); }

std::string ShownLine(absl::string_view text) { return Shown(text, false); }

}  // namespace verbena::tool
