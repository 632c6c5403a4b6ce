// How loaded a server is, as it tells its clients: the report of ORCA, which
// gRPC and Envoy take too.
//
//   verbena::LoadReport load;
//   load.cpu_utilization = 0.7;
//   load.requests_per_second = 1200;
//   verbena::ReportLoad(load, context);
//
// Clients whose policy is weighted_round_robin give such a server a weight by
// it: see docs/services.md.

#ifndef VERBENA_RPC_LOAD_REPORT_H_
#define VERBENA_RPC_LOAD_REPORT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace verbena {

class ServerContext;

// The load of a server. 0 stands for unknown.
struct LoadReport {
  // The share of the processors that the server's machine or container uses. 1
  // is all; more is possible.
  double cpu_utilization = 0;
  // The share of the memory in use, from 0 to 1.
  double memory_utilization = 0;
  // How busy the application takes itself for, as 1 is full. Clients take this
  // before cpu_utilization.
  double application_utilization = 0;
  // Requests that the server answers in a second.
  double requests_per_second = 0;
  // Those of them that end with an error.
  double errors_per_second = 0;
};

// The key in a call's trailing metadata. The value is the message
// xds.data.orca.v3.OrcaLoadReport.
inline constexpr absl::string_view kLoadReportKey = "endpoint-load-metrics-bin";

// Reports `load` with the call's status. Once a call, under the same rules as
// ServerContext::AddTrailingMetadata().
void ReportLoad(const LoadReport& load, ServerContext* context);

// Returns the value under kLoadReportKey.
std::string WriteLoadReport(const LoadReport& load);
// INVALID_ARGUMENT if `value` is not one, or a number is negative.
absl::StatusOr<LoadReport> ReadLoadReport(absl::string_view value);

}  // namespace verbena

#endif  // VERBENA_RPC_LOAD_REPORT_H_
