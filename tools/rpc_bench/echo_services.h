// The service that is measured, in each form in which handlers are written.

#ifndef VERBENA_TOOLS_RPC_BENCH_ECHO_SERVICES_H_
#define VERBENA_TOOLS_RPC_BENCH_ECHO_SERVICES_H_

#include <memory>

#include "rpc/service.h"
#include "tools/load/workload.h"

namespace verbena::bench {

// Returns verbena.bench.Echo.
std::unique_ptr<Service> NewEchoService(Api api);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_ECHO_SERVICES_H_
