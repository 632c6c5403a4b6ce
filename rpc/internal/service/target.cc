#include "rpc/internal/service/target.h"

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"

namespace verbena::internal {
namespace {

bool IsScheme(absl::string_view text) {
  if (text.empty() || !absl::ascii_isalpha(text.front())) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(c) && c != '+' && c != '-' && c != '.') {
      return false;
    }
  }
  return true;
}

}  // namespace

std::optional<Target> ParseTarget(absl::string_view text) {
  const size_t colon = text.find(':');
  if (colon == absl::string_view::npos || !IsScheme(text.substr(0, colon))) {
    return std::nullopt;
  }
  Target target{.scheme = absl::AsciiStrToLower(text.substr(0, colon)),
                .text = std::string(text)};
  absl::string_view rest = text.substr(colon + 1);
  if (absl::ConsumePrefix(&rest, "//")) {
    const size_t slash = rest.find('/');
    target.authority = std::string(rest.substr(0, slash));
    rest.remove_prefix(slash == absl::string_view::npos ? rest.size()
                                                        : slash + 1);
  }
  target.path = std::string(rest);
  return target;
}

absl::string_view HostOf(absl::string_view address) {
  if (absl::ConsumePrefix(&address, "[")) {
    return address.substr(0, address.find(']'));
  }
  return address.substr(0, address.rfind(':'));
}

}  // namespace verbena::internal
