// The service that is measured, in each form in which handlers are written.

#ifndef VERBENA_TOOLS_RPC_BENCH_ECHO_SERVICES_H_
#define VERBENA_TOOLS_RPC_BENCH_ECHO_SERVICES_H_

#include <functional>
#include <memory>

#include "rpc/service.h"
#include "tools/load/workload.h"
#include "tools/rpc_bench/echo.pb.h"

namespace verbena::bench {

// verbena.bench.Echo. `describe` answers Describe.
std::unique_ptr<Service> NewEchoService(
    Api api, std::function<void(DescribeReply*)> describe);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_ECHO_SERVICES_H_
