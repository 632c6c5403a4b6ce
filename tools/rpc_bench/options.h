// The command line of rpc_bench.

#ifndef VERBENA_TOOLS_RPC_BENCH_OPTIONS_H_
#define VERBENA_TOOLS_RPC_BENCH_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tools/rpc_bench/workload.h"
#include "transport/base/limits.h"

namespace verbena::bench {

// Where something is printed.
struct Output {
  bool wanted = false;
  std::string file;  // Empty: standard output.
};

// Where the payload of an echo by RPC travels.
enum class PayloadPlace {
  kBySize,      // As an attachment from kAttachmentFromBytes on, else a field.
  kField,       // In a bytes field of the message.
  kAttachment,  // Beside the message.
};

// Payloads that somebody who cares would not put into a message.
inline constexpr uint64_t kAttachmentFromBytes = 64 << 10;

struct Options {
  bool help = false;
  bool server = false;  // Serve until SIGINT or SIGTERM; measure nothing.
  bool idle = false;    // Measure what an idle connection costs, no calls.
  Output json;
  Output csv;
  std::string plot;  // A file; empty: none.

  // Where a server listens. Only with `server`.
  std::string listen = "0.0.0.0:50051";

  // The server to measure. Empty: one of our own, for as long as it takes.
  std::string target;

  // The device to use. Empty: the best at hand.
  std::string device;

  std::vector<std::string> layers = {"verbs", "transport", "rpc"};
  std::vector<uint64_t> sizes_bytes = {64, 4 << 10, 64 << 10, 1 << 20};
  std::vector<int> outstanding = {1, 32};

  PayloadPlace payload = PayloadPlace::kBySize;

  // Of each measurement, after its warm-up.
  absl::Duration duration = absl::Seconds(1);
  uint64_t iterations = 0;  // Not 0: so many calls instead.
  double rate_per_s = 0;    // Not 0: an open loop.
  bool validate = false;
  bool events = false;  // Both sides sleep when there is nothing to do.

  // Processors for client and server; nothing: what suits the machine.
  bool pin = true;
  std::optional<int> pin_client;
  std::optional<int> pin_server;

  // Of the transport layer; see EndpointOptions.
  uint64_t continued_max_bytes = transport::kDefaultContinuedBytesMax;

  // Of the verbs layer; see VerbsOptions.
  std::vector<Op> verbs_ops = {Op::kEcho, Op::kWrite, Op::kRead, Op::kSend};
  uint64_t bulk_threshold_bytes = 8192;
  uint32_t receive_depth = 0;
  std::optional<uint32_t> inline_bytes;
  int ib_port = 0;
  int gid_index = -1;
  int mtu_bytes = 0;
};

// Reads the arguments that follow the program's name. Fails with
// INVALID_ARGUMENT for an unknown flag, a value that is out of range or cannot
// be read, and flags that exclude one another; the message says what would do.
absl::StatusOr<Options> ParseOptions(absl::Span<const char* const> arguments);

// "64 B", "4 KiB", "1 MiB": in the largest unit that `bytes` is a multiple of.
std::string SizeName(uint64_t bytes);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_OPTIONS_H_
