// Calls counter.Counter: some unary calls, a stream, and one that fails.

#include <cstdint>
#include <iostream>
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "examples/interceptors/auth.h"
#include "examples/interceptors/counter.verbena.h"
#include "examples/interceptors/logging.h"
#include "examples/interceptors/metrics.h"
#include "rpc/channel.h"
#include "rpc/client_context.h"
#include "rpc/client_stream.h"

ABSL_FLAG(std::string, target, "127.0.0.1:50055", "address and port to call");
ABSL_FLAG(std::string, token, "open sesame",
          "the token for the server; empty: send none");

namespace {

absl::Status Double(counter::Counter::Stub& stub, int64_t* number) {
  verbena::ClientContext context;
  context.set_timeout(absl::Seconds(5));
  counter::Number request;
  counter::Number response;
  request.set_value(*number);
  const absl::Status status = stub.Double(&context, request, &response);
  *number = response.value();
  return status;
}

absl::Status Count(counter::Counter::Stub& stub, int64_t to) {
  verbena::ClientContext context;
  context.set_timeout(absl::Seconds(5));
  counter::Number request;
  request.set_value(to);
  const auto reader = stub.Count(&context, request);
  counter::Number number;
  while (reader->Read(&number)) std::cout << number.value() << ' ';
  std::cout << std::endl;
  return reader->Finish();
}

// Makes calls, of which one fails. The interceptors report all of them.
absl::Status CallAll(counter::Counter::Stub& stub) {
  int64_t number = 1;
  for (int i = 0; i < 5; ++i) {
    const absl::Status status = Double(stub, &number);
    if (!status.ok()) return status;
  }
  Count(stub, -1).IgnoreError();
  return Count(stub, number);
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Calls counter.Counter.");
  absl::ParseCommandLine(argc, argv);

  const auto metrics = std::make_shared<interceptors::Metrics>();
  verbena::ChannelOptions options;
  // The first interceptor is the outermost one.
  options.interceptors.push_back(
      std::make_shared<interceptors::ClientLogging>());
  options.interceptors.push_back(metrics);
  if (const std::string token = absl::GetFlag(FLAGS_token); !token.empty()) {
    options.interceptors.push_back(
        std::make_shared<interceptors::TokenSender>(token));
  }
  const auto stub = counter::Counter::NewStub(
      verbena::CreateChannel(absl::GetFlag(FLAGS_target), options));
  const absl::Status status = CallAll(*stub);
  metrics->Print(std::cout);
  if (!status.ok()) {
    std::cerr << "no count: " << status << std::endl;
    return 1;
  }
  return 0;
}
