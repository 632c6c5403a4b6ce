// The methods of a server that are known to be unary.

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
  // Methods that are remembered at most; servers have fewer. If a server
  // answers to all names, each call by a further name costs it two calls.
  static constexpr size_t kMost = 4096;

  bool Has(absl::string_view method) const;
  void Add(absl::string_view method);
  void Remove(absl::string_view method);

  // Whether a server ended a call with `status` because the call was of the
  // wrong kind: the method is unary and was called as a stream, or the reverse.
  // No handler has run then.
  static bool IsUnaryAfterAll(const absl::Status& status);
  static bool StreamsAfterAll(const absl::Status& status);

 private:
  mutable base::Mutex mutex_;
  absl::flat_hash_set<std::string> methods_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::gateway

#endif  // VERBENA_TOOLS_GATEWAY_UNARY_METHODS_H_
