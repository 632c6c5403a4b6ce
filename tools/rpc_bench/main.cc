// rpc_bench: what a call costs. See Usage() in options.cc.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tools/rpc_bench/bench_server.h"
#include "tools/rpc_bench/local_device.h"
#include "tools/rpc_bench/options.h"
#include "tools/rpc_bench/report.h"
#include "tools/rpc_bench/rpc_layer.h"
#include "tools/rpc_bench/server_process.h"
#include "tools/rpc_bench/workload.h"
#include "transport/base/status_macros.h"

namespace verbena::bench {
namespace {

constexpr int kMeasured = 0;
constexpr int kFailed = 1;
constexpr int kBadFlags = 2;

constexpr absl::Duration kStartTimeout = absl::Seconds(10);

// A line on standard error that says what is measured just now, if somebody is
// there to see it. Gone when this is destroyed.
class Progress {
 public:
  explicit Progress(size_t cases)
      : cases_(cases), visible_(isatty(STDERR_FILENO) == 1) {}
  ~Progress() { Show(""); }

  void Start(size_t index, const Case& measured) {
    Show(absl::StrFormat("[%d/%d] %s, %d outstanding ...", index + 1, cases_,
                         SizeName(measured.size_bytes), measured.outstanding));
  }

 private:
  void Show(const std::string& text) const {
    // To the start of the line, erase it, write.
    if (visible_) std::cerr << "\r\033[K" << text << std::flush;
  }

  const size_t cases_;
  const bool visible_;
};

// Starts this program again as a server on the device that `options` want.
// Narrows `options` to that device and that server.
absl::StatusOr<std::unique_ptr<ServerProcess>> StartServer(Options& options) {
  ASSIGN_OR_RETURN(const LocalDevice device, ChooseLocalDevice(options.device));
  ASSIGN_OR_RETURN(
      std::unique_ptr<ServerProcess> server,
      ServerProcess::Start(
          {"/proc/self/exe", absl::StrCat("--server=", device.address, ":0"),
           absl::StrCat("--device=", device.name)},
          kStartTimeout));
  options.device = device.name;
  options.target = server->address();
  return server;
}

absl::StatusOr<int> Measure(Options options) {
  std::unique_ptr<ServerProcess> server;
  if (options.target.empty()) {
    ASSIGN_OR_RETURN(server, StartServer(options));
  }
  ASSIGN_OR_RETURN(
      const std::unique_ptr<RpcLayer> layer,
      RpcLayer::Connect(options.target, options.device, kStartTimeout));
  std::sort(options.outstanding.begin(), options.outstanding.end());
  const std::vector<Case> cases =
      Cases(options.sizes_bytes, options.outstanding);
  std::vector<Result> results;
  {
    Progress progress(cases.size());
    results = RunCases(*layer, cases, options.duration,
                       [&progress](size_t index, const Case& measured) {
                         progress.Start(index, measured);
                       });
  }
  std::cout << (options.json ? Json(layer->device(), results)
                             : Table(layer->device(), results))
            << std::flush;
  const bool all_measured =
      std::all_of(results.begin(), results.end(),
                  [](const Result& result) { return result.successes > 0; });
  return all_measured ? kMeasured : kFailed;
}

int Main(absl::Span<const char* const> arguments) {
  absl::StatusOr<Options> options = ParseOptions(arguments);
  if (!options.ok()) {
    std::cerr << "rpc_bench: " << options.status().message() << std::endl;
    return kBadFlags;
  }
  if (options->help) {
    std::cout << Usage();
    return kMeasured;
  }
  if (const char* device = std::getenv("VERBENA_DEVICE");
      device != nullptr && options->device.empty()) {
    options->device = device;
  }
  if (options->server) {
    const absl::Status status = Serve(options->listen, options->device);
    if (status.ok()) return kMeasured;
    std::cerr << "rpc_bench: cannot serve: " << status << std::endl;
    return kFailed;
  }
  const absl::StatusOr<int> exit_code = Measure(*std::move(options));
  if (exit_code.ok()) return *exit_code;
  std::cerr << "rpc_bench: " << exit_code.status() << std::endl;
  return kFailed;
}

}  // namespace
}  // namespace verbena::bench

int main(int argc, char** argv) {
  return verbena::bench::Main(
      absl::MakeConstSpan(argv + 1, static_cast<size_t>(argc - 1)));
}
