#include "tools/rpc_bench/verbs_hello.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/base/status_macros.h"

namespace verbena::bench {
namespace {

constexpr uint32_t kMaxOutstanding = 1024;
constexpr uint32_t kMaxReceiveDepth = 16384;
constexpr uint32_t kMaxInlineBytes = 4096;

// Reads `data`, which may be longer.
template <typename Message>
absl::StatusOr<Message> Read(absl::Span<const uint8_t> data) {
  Message message;
  if (data.size() >= sizeof(message)) {
    std::memcpy(&message, data.data(), sizeof(message));
    if (message.magic == Message().magic) return message;
  }
  return absl::InvalidArgumentError(
      "the peer is not the verbs layer of this version of rpc_bench");
}

}  // namespace

absl::StatusOr<VerbsHello> DecodeHello(absl::Span<const uint8_t> data) {
  ASSIGN_OR_RETURN(const VerbsHello hello, Read<VerbsHello>(data));
  if (hello.plan < VerbsPlan::kSmallEcho ||
      hello.plan > VerbsPlan::kMemoryStream) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown plan ", static_cast<int>(hello.plan)));
  }
  if (hello.outstanding == 0 || hello.outstanding > kMaxOutstanding ||
      hello.receive_depth > kMaxReceiveDepth ||
      hello.inline_bytes > kMaxInlineBytes ||
      hello.size_bytes > kMaxVerbsMemoryBytes / hello.outstanding) {
    return absl::InvalidArgumentError(
        absl::StrCat(hello.outstanding, " outstanding of ", hello.size_bytes,
                     " bytes, ", hello.receive_depth, " receives and ",
                     hello.inline_bytes, " bytes inline are too much"));
  }
  return hello;
}

absl::StatusOr<VerbsWelcome> DecodeWelcome(absl::Span<const uint8_t> data) {
  return Read<VerbsWelcome>(data);
}

}  // namespace verbena::bench
