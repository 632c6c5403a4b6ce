// A server of Verbena for tests: Probe, health and reflection.

#include <iostream>

#include "rpc/rpc.h"
#include "rpc/services/health_service.h"
#include "rpc/services/reflection_service.h"
#include "tools/gateway/probe_service.h"
#include "tools/gateway/verbena_side.h"

int main() {
  verbena::gateway::test::ProbeService<verbena::gateway::test::VerbenaSide>
      probe;
  verbena::HealthService health;
  verbena::ReflectionService reflection;
  health.SetServingStatus("verbena.gateway.test.Probe", true);
  verbena::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0")
      .RegisterService(&probe)
      .RegisterService(&health)
      .RegisterService(&reflection);
  const auto server = builder.BuildAndStart();
  if (!server.ok()) {
    std::cerr << "cannot serve: " << server.status() << std::endl;
    return 1;
  }
  // The tests read the address from this line.
  std::cout << "listening on " << (*server)->listening().front().address
            << std::endl;
  (*server)->Wait();
}
