// Two ways to send bytes from a user's own memory: copy them into registered
// memory, or register the user's memory for one call. Uses the first device of
// the provider that the environment variable VERBENA_DEVICE names.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "benchmark/benchmark.h"
#include "transport/base/check.h"
#include "transport/device.h"

namespace verbena::transport {
namespace {

// A protection domain of its own.
class Domain {
 public:
  // Takes the first device that the provider lists.
  Domain() : verbs_(ListenProviders(WantedDevice({})).front()->verbs) {
    int devices = 0;
    ibv_device** const list = verbs_.get_device_list(&devices);
    CHECK(list != nullptr && devices > 0) << "no device";
    context_ = verbs_.open_device(list[0]);
    verbs_.free_device_list(list);
    CHECK(context_ != nullptr) << "the device cannot be opened";
    domain_ = verbs_.alloc_pd(context_);
    CHECK(domain_ != nullptr) << "no protection domain";
  }
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;
  ~Domain() {
    verbs_.dealloc_pd(domain_);
    verbs_.close_device(context_);
  }

  ibv_mr* Register(std::vector<uint8_t>& memory) {
    ibv_mr* const region =
        verbs_.reg_mr(domain_, memory.data(), memory.size(),
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    CHECK(region != nullptr) << "registration failed (ulimit -l?)";
    return region;
  }
  void Deregister(ibv_mr* region) { verbs_.dereg_mr(region); }

 private:
  const VerbsOps& verbs_;
  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
};

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->RangeMultiplier(16)->Range(4 << 10, 16 << 20);
}

// Without a device: both memories are plain.
void Copy(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  std::vector<uint8_t> from(bytes, 1);
  std::vector<uint8_t> to(bytes);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(Copy)->Apply(Sizes);

// The memory is touched before, so that no page is mapped meanwhile.
void RegisterForOneCall(benchmark::State& state) {
  Domain domain;
  std::vector<uint8_t> memory(static_cast<size_t>(state.range(0)), 1);
  for (auto _ : state) domain.Deregister(domain.Register(memory));
}
BENCHMARK(RegisterForOneCall)->Apply(Sizes);

}  // namespace
}  // namespace verbena::transport
