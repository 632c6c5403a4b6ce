// What rpc_bench --help prints.

#ifndef VERBENA_TOOLS_RPC_BENCH_USAGE_H_
#define VERBENA_TOOLS_RPC_BENCH_USAGE_H_

#include "absl/strings/string_view.h"

namespace verbena::bench {

absl::string_view Usage();

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_USAGE_H_
