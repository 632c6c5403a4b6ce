// How many calls there were of each method, and how long they took.

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

// The factory of either side. Calls write to it from many threads.
class Metrics final : public verbena::ClientInterceptorFactory,
                      public verbena::ServerInterceptorFactory {
 public:
  std::unique_ptr<verbena::ClientInterceptor> CreateClientInterceptor(
      verbena::ClientRpcInfo* info) override;
  std::unique_ptr<verbena::ServerInterceptor> CreateServerInterceptor(
      verbena::ServerRpcInfo* info) override;

  // A call has ended that took so long.
  void Add(absl::string_view method, absl::Duration time, bool failed);

  // A line for each method.
  void Print(std::ostream& out) const;

 private:
  struct Figures {
    int calls = 0;
    int failures = 0;
    absl::Duration sum;
    absl::Duration longest;
  };

  mutable std::mutex mutex_;
  std::map<std::string, Figures, std::less<>> methods_;  // Under mutex_.
};

}  // namespace interceptors

#endif  // VERBENA_EXAMPLES_INTERCEPTORS_METRICS_H_
