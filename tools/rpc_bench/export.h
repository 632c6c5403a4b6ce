// What rpc_bench prints of its results for programs.

#ifndef VERBENA_TOOLS_RPC_BENCH_EXPORT_H_
#define VERBENA_TOOLS_RPC_BENCH_EXPORT_H_

#include <string>

#include "tools/rpc_bench/report.h"

namespace verbena::bench {

// One JSON object on a line, with its newline; its schema is json_report.proto.
// What was not measured, or does not exist because no call succeeded, is null.
std::string Json(const Report& report);

// A line of names, then a line for each result, with the fields of the JSON.
std::string Csv(const Report& report);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_EXPORT_H_
