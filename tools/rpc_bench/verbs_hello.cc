#include "tools/rpc_bench/verbs_hello.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace verbena::bench {

absl::StatusOr<VerbsHello> DecodeHello(absl::Span<const uint8_t> data) {
  constexpr uint32_t kMaxOutstanding = 1024;
  VerbsHello hello;
  const uint32_t magic = hello.magic;
  if (data.size() >= sizeof(hello)) {
    std::memcpy(&hello, data.data(), sizeof(hello));
  }
  if (data.size() < sizeof(hello) || hello.magic != magic ||
      hello.plan < VerbsPlan::kSmallEcho ||
      hello.plan > VerbsPlan::kMemoryStream) {
    return absl::InvalidArgumentError(
        "the peer is not the verbs layer of this version of rpc_bench");
  }
  if (hello.outstanding == 0 || hello.outstanding > kMaxOutstanding ||
      hello.size_bytes > kMaxVerbsMemoryBytes / hello.outstanding) {
    return absl::InvalidArgumentError(
        absl::StrCat(hello.outstanding, " outstanding of ", hello.size_bytes,
                     " bytes are too much"));
  }
  return hello;
}

}  // namespace verbena::bench
