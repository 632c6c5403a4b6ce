// A server that exports to Prometheus, and a client that has called it so often
// as the command line says. Ends with its standard input.
//
// usage: counted_server ECHOES FAILURES

#include <prometheus/exposer.h>

#include <iostream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rpc/rpc.h"
#include "rpc/services/prometheus/prometheus_metrics.h"
#include "tests/integration/test_service.h"

namespace verbena::end_to_end {
namespace {

// Returns whether all calls ended as they should.
bool Call(EndToEnd::Stub& stub, int echoes, int failures) {
  EchoRequest request;
  request.set_payload(std::string(98, 'x'));  // Serialised, 100 bytes.
  for (int i = 0; i < echoes; ++i) {
    ClientContext context;
    EchoReply reply;
    if (!stub.Echo(&context, request, &reply).ok()) return false;
  }
  for (int i = 0; i < failures; ++i) {
    ClientContext context;
    FailRequest fail;
    fail.set_code(static_cast<int>(absl::StatusCode::kNotFound));
    Nothing nothing;
    if (!absl::IsNotFound(stub.Fail(&context, fail, &nothing))) return false;
  }
  return true;
}

int Run(int echoes, int failures) {
  auto metrics = std::make_shared<PrometheusMetrics>();
  EndToEndService service;
  int port = 0;
  ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", &port);
  builder.SetDevice("soft");
  builder.RegisterService(&service);
  metrics->AddServer(&builder, "counted");
  const auto server = builder.BuildAndStart();
  if (!server.ok()) {
    std::cerr << server.status() << "\n";
    return 1;
  }
  ChannelOptions options;
  options.device = "soft";
  const auto channel = CreateChannel(absl::StrCat("127.0.0.1:", port), options);
  metrics->AddChannel(channel, "counting");
  if (!Call(*EndToEnd::NewStub(channel), echoes, failures)) {
    std::cerr << "a call ended otherwise than it should\n";
    return 1;
  }
  prometheus::Exposer exposer("127.0.0.1:0");
  exposer.RegisterCollectable(metrics);
  std::cout << "http://127.0.0.1:" << exposer.GetListeningPorts().front()
            << "/metrics" << std::endl;
  std::string ignored;
  while (std::getline(std::cin, ignored)) {
  }
  return 0;
}

}  // namespace
}  // namespace verbena::end_to_end

int main(int argc, char** argv) {
  int echoes = 0;
  int failures = 0;
  if (argc != 3 || !absl::SimpleAtoi(argv[1], &echoes) ||
      !absl::SimpleAtoi(argv[2], &failures)) {
    std::cerr << "usage: counted_server ECHOES FAILURES\n";
    return 2;
  }
  return verbena::end_to_end::Run(echoes, failures);
}
