// Keeps the results of a resolver for a test that waits for them.

#ifndef VERBENA_TESTS_TESTING_RESOLVED_ANSWERS_H_
#define VERBENA_TESTS_TESTING_RESOLVED_ANSWERS_H_

#include <deque>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "rpc/resolver.h"
#include "transport/base/mutex.h"

namespace verbena::testing_support {

// Must outlive the resolver. Thread-safe.
class ResolvedAnswers {
 public:
  Resolver::OnResult function() {
    return [this](absl::StatusOr<Resolved> result) {
      const base::MutexLock lock(mutex_);
      results_.push_back(std::move(result));
      changed_.NotifyAll();
    };
  }

  // Waits for the next result, and takes it.
  absl::StatusOr<Resolved> Next() {
    const base::MutexLock lock(mutex_);
    while (results_.empty()) changed_.Wait(mutex_);
    auto result = std::move(results_.front());
    results_.pop_front();
    return result;
  }

  // Returns the next result as text: "10.0.0.1:7 10.0.0.2:7*3", where 3 is a
  // weight that is not 1; or the status.
  std::string NextText() {
    const auto result = Next();
    if (!result.ok()) return result.status().ToString();
    std::string text;
    for (const ServerAddress& each : result->servers) {
      absl::StrAppend(&text, text.empty() ? "" : " ", each.address);
      if (each.weight != 1) absl::StrAppend(&text, "*", each.weight);
    }
    return text;
  }

  size_t size() const {
    const base::MutexLock lock(mutex_);
    return results_.size();
  }

 private:
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<absl::StatusOr<Resolved>> results_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::testing_support

#endif  // VERBENA_TESTS_TESTING_RESOLVED_ANSWERS_H_
