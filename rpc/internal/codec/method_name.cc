#include "rpc/internal/codec/method_name.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/method_hash.h"
#include "rpc/internal/codec/metadata_codec.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {
namespace {

// As much as is quoted of a name that is none.
constexpr size_t kQuotedBytes = 64;

bool IsNameCharacter(char character) {
  return absl::ascii_isalnum(static_cast<unsigned char>(character)) ||
         character == '_' || character == '.';
}

// A second slash is no character of a name, so only one can be there.
bool IsMethodName(absl::string_view name) {
  const size_t slash = name.find('/');
  if (slash == absl::string_view::npos) return false;
  const absl::string_view service = name.substr(0, slash);
  const absl::string_view method = name.substr(slash + 1);
  return !service.empty() && !method.empty() &&
         std::all_of(service.begin(), service.end(), IsNameCharacter) &&
         std::all_of(method.begin(), method.end(), IsNameCharacter);
}

std::string Quoted(absl::string_view name) {
  return absl::StrCat("\"", absl::CHexEscape(name.substr(0, kQuotedBytes)),
                      name.size() > kQuotedBytes ? "\"..." : "\"");
}

}  // namespace

absl::Status CheckMethodName(absl::string_view name) {
  if (name.size() > kMaxMethodNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the method's name ", Quoted(name), " has ", name.size(),
        " bytes; a name has ", kMaxMethodNameBytes, " at the most"));
  }
  if (IsMethodName(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      Quoted(name),
      " is not a method's name; a name has the form package.Service/Method"));
}

uint32_t MethodNameBytes(absl::string_view name) {
  return static_cast<uint32_t>(PairBytes(kMethodNameKey.size(), name.size()));
}

uint8_t* WriteMethodName(absl::string_view name, uint8_t* out,
                         const uint8_t* limit) {
  return WritePair(kMethodNameKey, name, out, limit);
}

absl::StatusOr<std::string> TakeMethodName(uint64_t method_id,
                                           Metadata* metadata) {
  const auto [begin, end] = metadata->equal_range(kMethodNameKey);
  if (begin == end) return absl::NotFoundError("the method's name is missing");
  std::string name = std::move(begin->second);
  // All pairs of that key, so that none reaches the handler.
  metadata->erase(begin, end);
  RETURN_IF_ERROR(CheckMethodName(name));
  if (MethodHash(name) != method_id) {
    return absl::InvalidArgumentError(
        absl::StrCat("the hash in the call is not that of the method ", name));
  }
  return name;
}

}  // namespace verbena::internal
