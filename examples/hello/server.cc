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
#include "rpc/credentials/tls_files.h"
#include "rpc/server_builder.h"
#include "rpc/server_context.h"

ABSL_FLAG(std::string, listen, "127.0.0.1:50051",
          "address and port to serve on; port 0 takes any free one");
ABSL_FLAG(std::string, tls_ca, "",
          "PEM file of root certificates: accept only clients whose "
          "certificates lead to one of them");
ABSL_FLAG(std::string, tls_cert, "",
          "PEM file of the server's certificate: serve by TLS");
ABSL_FLAG(std::string, tls_key, "", "PEM file of its private key");

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
  // gets them. Credentials of files have a thread that watches these.
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGINT);
  sigaddset(&stop_signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);

  // Without files the credentials are insecure.
  absl::StatusOr<std::shared_ptr<verbena::ServerCredentials>> credentials =
      verbena::ServerCredentialsFromFiles(
          {.root_certs = absl::GetFlag(FLAGS_tls_ca),
           .certificate_chain = absl::GetFlag(FLAGS_tls_cert),
           .private_key = absl::GetFlag(FLAGS_tls_key)});
  if (!credentials.ok()) {
    std::cerr << "no credentials: " << credentials.status() << std::endl;
    return 2;
  }

  GreeterService service;
  verbena::ServerBuilder builder;
  builder.AddListeningPort(absl::GetFlag(FLAGS_listen), *credentials);
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
