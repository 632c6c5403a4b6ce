// rpc_bench: what a call costs. See usage.cc.

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tools/rpc_bench/bench.h"
#include "tools/rpc_bench/bench_server.h"
#include "tools/rpc_bench/export.h"
#include "tools/rpc_bench/options.h"
#include "tools/rpc_bench/plot.h"
#include "tools/rpc_bench/process.h"
#include "tools/rpc_bench/report.h"
#include "tools/rpc_bench/usage.h"
#include "tools/rpc_bench/workload.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/limits.h"
#include "transport/base/status_macros.h"

namespace verbena::bench {
namespace {

constexpr int kMeasured = 0;
constexpr int kFailed = 1;
constexpr int kBadFlags = 2;

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  if (file.good()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot write ", path));
}

// Writes `text` to the file of `output`, or standard output.
absl::Status Write(const Output& output, const std::string& text) {
  if (!output.file.empty()) return WriteFile(output.file, text);
  std::cout << text << std::flush;
  return absl::OkStatus();
}

absl::Status Print(const Options& options, const Report& report) {
  const bool table = (!options.json.wanted || !options.json.file.empty()) &&
                     (!options.csv.wanted || !options.csv.file.empty());
  if (table) std::cout << Table(report) << std::flush;
  if (options.json.wanted) RETURN_IF_ERROR(Write(options.json, Json(report)));
  if (options.csv.wanted) RETURN_IF_ERROR(Write(options.csv, Csv(report)));
  if (!options.plot.empty()) {
    const Threshold continued = {transport::kSlotBytes, "continued"};
    const Threshold rendezvous = {options.continued_max_bytes, "rendezvous"};
    RETURN_IF_ERROR(
        WriteFile(options.plot, Plot(report, {continued, rendezvous})));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Measure(const Options& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench, Bench::Start(options));
  if (options.idle) {
    ASSIGN_OR_RETURN(const std::string line, bench->MeasureIdle());
    std::cout << line << std::flush;
    return kMeasured;
  }
  ASSIGN_OR_RETURN(const Report report, bench->Measure());
  RETURN_IF_ERROR(Print(options, report));
  const bool all_measured =
      std::all_of(report.results.begin(), report.results.end(),
                  [](const Result& result) { return result.successes > 0; });
  return all_measured ? kMeasured : kFailed;
}

absl::Status RunServer(const Options& options) {
  BenchServerOptions server;
  server.address = options.listen;
  server.device = options.device;
  server.events = options.events;
  server.continued_max_bytes =
      static_cast<uint32_t>(options.continued_max_bytes);
  if (options.pin_server.has_value()) {
    server.pinned_to = *options.pin_server;
    RETURN_IF_ERROR(PinTo(server.pinned_to));
  }
  return Serve(server);
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
    const absl::Status status = RunServer(*options);
    if (status.ok()) return kMeasured;
    std::cerr << "rpc_bench: cannot serve: " << status << std::endl;
    return kFailed;
  }
  const absl::StatusOr<int> exit_code = Measure(*options);
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
