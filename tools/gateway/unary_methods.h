// Which methods of a server are unary, as far as that is known.

#ifndef VERBENA_TOOLS_GATEWAY_UNARY_METHODS_H_
#define VERBENA_TOOLS_GATEWAY_UNARY_METHODS_H_

#include <cstddef>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "transport/base/mutex.h"

namespace verbena::gateway {

// Thread-safe.
class UnaryMethods {
 public:
  // More than servers have. One that answers all names is asked for each name
  // beyond them twice.
  static constexpr size_t kMost = 4096;

  bool Has(absl::string_view method) const;
  void Add(absl::string_view method);
  void Remove(absl::string_view method);

  // How a server refuses a call of the wrong kind: of a unary method that is
  // called as if it streamed, and the other way round. Nothing has run then.
  static bool IsUnaryAfterAll(const absl::Status& status);
  static bool StreamsAfterAll(const absl::Status& status);

 private:
  mutable base::Mutex mutex_;
  absl::flat_hash_set<std::string> methods_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::gateway

#endif  // VERBENA_TOOLS_GATEWAY_UNARY_METHODS_H_
