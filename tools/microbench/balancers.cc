// The choice of a server for a call, and the news of the call's end.

#include "rpc/internal/service/balancers.h"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "rpc/balancer.h"
#include "rpc/internal/service/fake_server.h"
#include "rpc/metadata.h"

namespace verbena::internal {
namespace {

constexpr char kOutliers[] = R"({"failurePercentageEjection": {},
    "childPolicy": [{"round_robin": {}}]})";

// A balancer of that policy, which has twenty servers.
std::unique_ptr<Balancer> Make(const std::string& policy,
                               const std::string& config,
                               const BalancedServers& servers) {
  auto chosen = ChoosePolicy({{policy, config}}, {.others = {}, .seed = 7});
  servers.Tell(chosen->balancer.get());
  return std::move(chosen->balancer);
}

void Pick(benchmark::State& state, const std::string& policy,
          const std::string& config) {
  const BalancedServers servers(20);
  const auto balancer = Make(policy, config, servers);
  const Metadata metadata = {{"user", "ada"}};
  for (auto _ : state) {
    benchmark::DoNotOptimize(balancer->Pick({"a.B/C", &metadata}));
  }
}
BENCHMARK_CAPTURE(Pick, round_robin, "round_robin", "{}");
BENCHMARK_CAPTURE(Pick, weighted_round_robin, "weighted_round_robin", "{}");
BENCHMARK_CAPTURE(Pick, least_request, "least_request", "{}");
BENCHMARK_CAPTURE(Pick, ring_hash, "ring_hash",
                  R"({"requestHashHeader": "user"})");
BENCHMARK_CAPTURE(Pick, nearest, "nearest",
                  R"({"childPolicy": [{"round_robin": {}}]})");
BENCHMARK_CAPTURE(Pick, outlier_detection, "outlier_detection_experimental",
                  kOutliers);

void Result(benchmark::State& state) {
  const BalancedServers servers(20);
  const auto balancer =
      Make("outlier_detection_experimental", kOutliers, servers);
  Balancer::Result result{.time = absl::UnixEpoch(),
                          .latency = absl::Microseconds(1)};
  size_t position = 0;
  for (auto _ : state) {
    balancer->OnResult(position, result);
    position = position == 19 ? 0 : position + 1;
    result.time += absl::Microseconds(1);
  }
}
BENCHMARK(Result);

}  // namespace
}  // namespace verbena::internal
