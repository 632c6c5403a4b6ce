#include "tools/rpc_bench/verbs_hello.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace verbena::bench {

// Chooses how the bytes move by operation and size.
VerbsHello HelloOf(const Case& measured, bool events) {
  // Echoes of more bytes are moved by READs and WRITEs, as in large calls.
  constexpr uint64_t kBulkFromBytes = 8192;
  VerbsHello hello;
  if (measured.op == Op::kSend) {
    hello.plan = VerbsPlan::kSendStream;
  } else if (measured.op != Op::kEcho) {
    hello.plan = VerbsPlan::kMemoryStream;
  } else if (measured.size_bytes > kBulkFromBytes) {
    hello.plan = VerbsPlan::kBulkEcho;
  }
  hello.events = events ? 1 : 0;
  hello.outstanding = static_cast<uint32_t>(measured.outstanding);
  hello.size_bytes = measured.size_bytes;
  return hello;
}

// Checks everything that sizes memory or chooses code, because any program may
// connect.
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
  // Zero is refused first, because the memory is divided by it.
  if (hello.outstanding == 0 || hello.outstanding > kMaxOutstanding ||
      hello.size_bytes > kMaxVerbsMemoryBytes / hello.outstanding) {
    return absl::InvalidArgumentError(absl::StrCat(
        hello.outstanding, " outstanding messages of ", hello.size_bytes,
        " bytes take more memory than the verbs layer allows"));
  }
  return hello;
}

}  // namespace verbena::bench
