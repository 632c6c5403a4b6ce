// Serves counter.Counter to clients that have the token. Ends when it gets
// SIGINT or SIGTERM.

#include <cstdint>
#include <iostream>
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "examples/common/serve.h"
#include "examples/interceptors/auth.h"
#include "examples/interceptors/counter.verbena.h"
#include "examples/interceptors/logging.h"
#include "examples/interceptors/metrics.h"
#include "rpc/server_builder.h"
#include "rpc/server_context.h"
#include "rpc/server_stream.h"

ABSL_FLAG(std::string, listen, "127.0.0.1:50055",
          "address and port to serve on; port 0 takes any free one");
ABSL_FLAG(std::string, token, "open sesame",
          "the token that clients must send");

namespace counter {
namespace {

// The service, which needs no code for tokens, logs and metrics.
class CounterService final : public Counter::Service {
  absl::Status Double(verbena::ServerContext* /*context*/,
                      const Number* request, Number* response) override {
    response->set_value(2 * request->value());
    return absl::OkStatus();
  }

  absl::Status Count(verbena::ServerContext* /*context*/, const Number* request,
                     verbena::ServerWriter<Number>* writer) override {
    if (request->value() < 0) {
      return absl::InvalidArgumentError("the number must not be negative");
    }
    Number number;
    for (int64_t i = 1; i <= request->value(); ++i) {
      number.set_value(i);
      if (!writer->Write(number)) break;
    }
    return absl::OkStatus();
  }
};

}  // namespace
}  // namespace counter

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Serves counter.Counter.");
  absl::ParseCommandLine(argc, argv);

  counter::CounterService service;
  const auto metrics = std::make_shared<interceptors::Metrics>();
  verbena::ServerBuilder builder;
  builder.AddListeningPort(absl::GetFlag(FLAGS_listen));
  builder.RegisterService(&service);
  // The first interceptor is the outermost one, so calls without a token are
  // logged and counted, too.
  builder.AddInterceptor(std::make_shared<interceptors::ServerLogging>());
  builder.AddInterceptor(metrics);
  builder.AddInterceptor(
      std::make_shared<interceptors::TokenChecker>(absl::GetFlag(FLAGS_token)));
  const int exit_code = examples::Serve(builder);
  metrics->Print(std::cout);
  return exit_code;
}
