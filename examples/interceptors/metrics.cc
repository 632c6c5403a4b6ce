#include "examples/interceptors/metrics.h"

#include <algorithm>
#include <functional>

#include "absl/time/clock.h"

namespace interceptors {
namespace {

// Measures the time from OnStart() to OnEnd(). At a client that is the whole
// call, at a server the handler. Inner interceptors are included.
template <typename Interceptor, typename Info>
class MeasuredCall final : public Interceptor {
 public:
  MeasuredCall(Info* info, Metrics* metrics)
      : info_(*info), metrics_(*metrics) {}

  absl::Status OnStart() override {
    start_ = absl::Now();
    return absl::OkStatus();
  }
  void OnEnd(absl::Status* status) override {
    metrics_.Add(info_.method(), absl::Now() - start_, !status->ok());
  }

 private:
  Info& info_;
  Metrics& metrics_;
  absl::Time start_;
};

}  // namespace

std::unique_ptr<verbena::ClientInterceptor> Metrics::CreateClientInterceptor(
    verbena::ClientRpcInfo* info) {
  return std::make_unique<
      MeasuredCall<verbena::ClientInterceptor, verbena::ClientRpcInfo>>(info,
                                                                        this);
}

std::unique_ptr<verbena::ServerInterceptor> Metrics::CreateServerInterceptor(
    verbena::ServerRpcInfo* info) {
  return std::make_unique<
      MeasuredCall<verbena::ServerInterceptor, verbena::ServerRpcInfo>>(info,
                                                                        this);
}

void Metrics::Add(absl::string_view method, absl::Duration time, bool failed) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Figures& figures = methods_[std::string(method)];
  ++figures.calls;
  if (failed) ++figures.failures;
  figures.sum += time;
  figures.longest = std::max(figures.longest, time);
}

void Metrics::Print(std::ostream& out) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [method, figures] : methods_) {
    out << method << ": " << figures.calls << " calls, " << figures.failures
        << " failed, " << absl::FormatDuration(figures.sum / figures.calls)
        << " on average, " << absl::FormatDuration(figures.longest)
        << " at the most\n";
  }
  out.flush();
}

}  // namespace interceptors
