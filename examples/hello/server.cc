// Serves helloworld.Greeter until it gets SIGINT or SIGTERM.

#include "rpc/server.h"

#include <csignal>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "examples/hello/greeter.verbena.h"
#include "rpc/server_builder.h"
#include "rpc/server_context.h"

ABSL_FLAG(std::string, listen, "127.0.0.1:50051",
          "address and port to serve on; port 0 takes any free one");

namespace {

class GreeterService final : public helloworld::Greeter::Service {
  absl::Status SayHello(verbena::ServerContext* /*context*/,
                        const helloworld::HelloRequest* request,
                        helloworld::HelloReply* reply) override {
    if (request->name().empty()) {
      return absl::InvalidArgumentError("whom shall I greet? `name` is empty");
    }
    reply->set_message("Hello " + request->name());
    return absl::OkStatus();
  }
};

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Serves helloworld.Greeter.");
  if (absl::ParseCommandLine(argc, argv).size() != 1) {
    std::cerr << "unexpected argument: all options are flags, see --help"
              << std::endl;
    return 2;
  }

  // Blocks the signals before any thread starts, so that only sigwait() below
  // gets them.
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGINT);
  sigaddset(&stop_signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);

  GreeterService service;
  verbena::ServerBuilder builder;
  builder.AddListeningPort(absl::GetFlag(FLAGS_listen));
  builder.RegisterService(&service);
  absl::StatusOr<std::unique_ptr<verbena::Server>> server =
      builder.BuildAndStart();
  if (!server.ok()) {
    std::cerr << "cannot serve: " << server.status() << std::endl;
    return 1;
  }

  std::vector<std::string> devices;
  for (const verbena::Server::Listening& listening : (*server)->listening()) {
    devices.push_back(listening.device);
  }
  std::cout << "listening on " << (*server)->listening().front().address
            << " via " << absl::StrJoin(devices, ", ") << std::endl;

  int signal = 0;
  sigwait(&stop_signals, &signal);
  (*server)->Shutdown(absl::Now() + absl::Seconds(5));
  return 0;
}
