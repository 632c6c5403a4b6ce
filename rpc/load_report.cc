#include "rpc/load_report.h"

#include <cmath>

#include "proto/lite/orca.pb.h"
#include "rpc/server_context.h"

namespace verbena {
namespace {

bool IsLoad(double value) { return std::isfinite(value) && value >= 0; }

}  // namespace

void ReportLoad(const LoadReport& load, ServerContext* context) {
  context->AddTrailingMetadata(kLoadReportKey, WriteLoadReport(load));
}

std::string WriteLoadReport(const LoadReport& load) {
  lite::OrcaLoadReport report;
  report.set_cpu_utilization(load.cpu_utilization);
  report.set_mem_utilization(load.memory_utilization);
  report.set_application_utilization(load.application_utilization);
  report.set_rps_fractional(load.requests_per_second);
  report.set_eps(load.errors_per_second);
  return report.SerializeAsString();
}

absl::StatusOr<LoadReport> ReadLoadReport(absl::string_view value) {
  lite::OrcaLoadReport report;
  if (!report.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    return absl::InvalidArgumentError("this is no OrcaLoadReport");
  }
  const LoadReport load{
      .cpu_utilization = report.cpu_utilization(),
      .memory_utilization = report.mem_utilization(),
      .application_utilization = report.application_utilization(),
      .requests_per_second = report.rps_fractional(),
      .errors_per_second = report.eps()};
  if (!IsLoad(load.cpu_utilization) || !IsLoad(load.memory_utilization) ||
      !IsLoad(load.application_utilization) ||
      !IsLoad(load.requests_per_second) || !IsLoad(load.errors_per_second)) {
    return absl::InvalidArgumentError(
        "an OrcaLoadReport has a value that is negative or not finite");
  }
  return load;
}

}  // namespace verbena
