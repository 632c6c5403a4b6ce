// What the two ends of the verbs layer tell each other when they connect.

#ifndef VERBENA_TOOLS_RPC_BENCH_VERBS_HELLO_H_
#define VERBENA_TOOLS_RPC_BENCH_VERBS_HELLO_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/rpc_bench/workload.h"

namespace verbena::bench {

// How echoes go over the wire.
enum class VerbsPlan : uint8_t {
  kSmallEcho = 1,  // A SEND each way.
  // The client SENDs the number of a slot; the server READs the slot's bytes,
  // WRITEs them back and SENDs the number.
  kBulkEcho = 2,
  // The client streams SENDs; the server SENDs nothing back but how far it is.
  kSendStream = 3,
  kMemoryStream = 4,  // The client WRITEs or READs; the server does nothing.
};

// The client's private data. A connection serves one case.
struct VerbsHello {
  VerbsPlan plan = VerbsPlan::kSmallEcho;
  bool events = false;  // Sleep on completion channels between messages.
  uint32_t outstanding = 1;
  uint64_t size_bytes = 0;
  uint32_t receive_depth = 0;  // 0: what suits the rest.
  uint32_t inline_bytes = 0;
  // The memory of a bulk echo: a slot for each call that the server reads, then
  // one for each that it writes.
  uint64_t address = 0;
  uint32_t rkey = 0;
};

// The server's private data: the memory of a kMemoryStream.
struct VerbsWelcome {
  uint64_t address = 0;
  uint32_t rkey = 0;
};

std::string EncodeHello(const VerbsHello& hello);
std::string EncodeWelcome(const VerbsWelcome& welcome);

// `data` may be padded. Fail with INVALID_ARGUMENT when it is of another
// program, or asks for more than this server gives anybody.
absl::StatusOr<VerbsHello> DecodeHello(absl::Span<const uint8_t> data);
absl::StatusOr<VerbsWelcome> DecodeWelcome(absl::Span<const uint8_t> data);

// Most memory, in bytes, that either end of a case takes.
inline constexpr uint64_t kMaxVerbsMemoryBytes = uint64_t{2} << 30;

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_VERBS_HELLO_H_
