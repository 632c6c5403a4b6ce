// Interceptors that count the calls of each method, and measure their times.

#ifndef VERBENA_EXAMPLES_INTERCEPTORS_METRICS_H_
#define VERBENA_EXAMPLES_INTERCEPTORS_METRICS_H_

#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/client_interceptor.h"
#include "rpc/server_interceptor.h"

namespace interceptors {

// The factory of interceptors for both sides. Thread-safe.
class Metrics final : public verbena::ClientInterceptorFactory,
                      public verbena::ServerInterceptorFactory {
 public:
  std::unique_ptr<verbena::ClientInterceptor> CreateClientInterceptor(
      verbena::ClientRpcInfo* info) override;
  std::unique_ptr<verbena::ServerInterceptor> CreateServerInterceptor(
      verbena::ServerRpcInfo* info) override;

  // Counts a call that has ended after `time`.
  void Add(absl::string_view method, absl::Duration time, bool failed);

  // Prints a line for each method.
  void Print(std::ostream& out) const;

 private:
  struct Figures {
    int calls = 0;
    int failures = 0;
    absl::Duration sum;
    absl::Duration longest;
  };

  mutable std::mutex mutex_;
  std::map<std::string, Figures, std::less<>> methods_;  // Guarded by mutex_.
};

}  // namespace interceptors

#endif  // VERBENA_EXAMPLES_INTERCEPTORS_METRICS_H_
