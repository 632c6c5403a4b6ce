// One run of rpc_bench, as a client or as a server.

#ifndef VERBENA_TOOLS_RPC_BENCH_BENCH_H_
#define VERBENA_TOOLS_RPC_BENCH_BENCH_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/child/server_child.h"
#include "tools/rpc_bench/flags.h"
#include "tools/rpc_bench/report.pb.h"
#include "tools/rpc_bench/rpc_layer.h"
#include "tools/rpc_bench/workload.h"

namespace verbena::bench {

// A server, ours or another's, and the layers that reach it.
class Bench {
 public:
  // Starts a server if `options` name none, and connects.
  static absl::StatusOr<std::unique_ptr<Bench>> Start(Options options);
  ~Bench();

  // Measures each case at each layer before the next case: what is compared was
  // measured at nearly the same time.
  Report Measure();

  // Measures what the idle connections take of processors; a line of text.
  absl::StatusOr<std::string> MeasureIdle();

 private:
  explicit Bench(Options options);

  // On the device that the options want; narrows them to that and to the
  // server.
  absl::Status StartServer();
  // Adds the layers that the options want.
  absl::Status Connect();
  absl::StatusOr<Usage> CurrentUsage();
  absl::StatusOr<absl::Duration> ServerCpuUsed();

  Options options_;
  int server_processor_ = -1;  // -1: not pinned.
  // In the order of dependence.
  std::unique_ptr<tools::ServerChild> server_;  // Null if it is another's.
  std::unique_ptr<RpcLayer> rpc_;               // Also to ask the server.
  std::vector<std::unique_ptr<Layer>> others_;
  std::vector<Layer*> layers_;  // Those wanted.
};

// Serves verbena.bench.Echo at `address`, "host:port", and the other layers at
// free ports of it that Echo.Describe() tells, until SIGINT or SIGTERM, pinned
// to the server's processor if the options name one. Prints its listening line
// (see tools/child/server_child.h) to standard output as soon as it serves.
//
// Blocks the two signals for good. Call it from main(), before any thread
// starts.
absl::Status Serve(const std::string& address, const Options& options);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_BENCH_H_
