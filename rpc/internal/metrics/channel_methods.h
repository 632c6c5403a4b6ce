// The counters of a channel's calls.

#ifndef VERBENA_RPC_INTERNAL_METRICS_CHANNEL_METHODS_H_
#define VERBENA_RPC_INTERNAL_METRICS_CHANNEL_METHODS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "rpc/internal/metrics/method_counters.h"
#include "rpc/metrics.h"
#include "transport/base/mutex.h"

namespace verbena::internal {

// The methods that were called, each with its counters, which stay where they
// are. One thread at a time finds; any may take a snapshot.
class ChannelMethods {
 public:
  ChannelMethods() = default;
  ChannelMethods(const ChannelMethods&) = delete;
  ChannelMethods& operator=(const ChannelMethods&) = delete;

  // Most methods are found with one look, after their first call.
  MethodCounters& Find(uint64_t id, const char* name, bool streams) {
    const Direct& direct = direct_[id % kDirect];
    if (ABSL_PREDICT_TRUE(direct.counters != nullptr && direct.id == id)) {
      return *direct.counters;
    }
    return FindSlow(id, name, streams);
  }

  std::vector<MethodMetrics> Snapshot() const;

 private:
  static constexpr size_t kDirect = 64;
  // A limit, so that calls of methods whose names come from elsewhere do not
  // fill the memory.
  static constexpr size_t kMost = 1000;

  struct Direct {
    uint64_t id = 0;
    MethodCounters* counters = nullptr;
  };
  struct Entry {
    std::string name;
    bool streams = false;
    MethodCounters counters;
  };

  ABSL_ATTRIBUTE_NOINLINE MethodCounters& FindSlow(uint64_t id,
                                                   const char* name,
                                                   bool streams);

  std::array<Direct, kDirect> direct_;  // By the low bits of the id.
  mutable base::Mutex mutex_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Entry>> entries_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_METRICS_CHANNEL_METHODS_H_
