// Asks a helloworld.Greeter for a greeting.

#include <iostream>
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "examples/hello/greeter.verbena.h"
#include "rpc/channel.h"
#include "rpc/client_context.h"
#include "rpc/credentials/tls_files.h"

ABSL_FLAG(std::string, target, "127.0.0.1:50051", "address and port to call");
ABSL_FLAG(std::string, name, "world", "whom to greet");
ABSL_FLAG(std::string, tls_ca, "",
          "PEM file of root certificates: use TLS, and call only a server "
          "whose certificate leads to one of them");
ABSL_FLAG(std::string, tls_cert, "",
          "PEM file of the certificate that the client shows");
ABSL_FLAG(std::string, tls_key, "", "PEM file of its private key");
ABSL_FLAG(std::string, tls_server_name, "",
          "name of the server in its certificate, if that is not the target's");

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Asks a helloworld.Greeter for a greeting.");
  if (absl::ParseCommandLine(argc, argv).size() != 1) {
    std::cerr << "unexpected argument: all options are flags, see --help"
              << std::endl;
    return 2;
  }

  // Without files the credentials are insecure.
  absl::StatusOr<std::shared_ptr<verbena::ChannelCredentials>> credentials =
      verbena::ChannelCredentialsFromFiles(
          {.root_certs = absl::GetFlag(FLAGS_tls_ca),
           .certificate_chain = absl::GetFlag(FLAGS_tls_cert),
           .private_key = absl::GetFlag(FLAGS_tls_key),
           .server_name = absl::GetFlag(FLAGS_tls_server_name)});
  if (!credentials.ok()) {
    std::cerr << "no credentials: " << credentials.status() << std::endl;
    return 2;
  }
  std::shared_ptr<verbena::Channel> channel =
      verbena::CreateChannel(absl::GetFlag(FLAGS_target), *credentials);
  std::unique_ptr<helloworld::Greeter::Stub> stub =
      helloworld::Greeter::NewStub(channel);

  verbena::ClientContext context;
  context.set_timeout(absl::Seconds(10));
  helloworld::HelloRequest request;
  request.set_name(absl::GetFlag(FLAGS_name));
  helloworld::HelloReply reply;
  absl::Status status = stub->SayHello(&context, request, &reply);
  if (!status.ok()) {
    std::cerr << "no greeting: " << status << std::endl;
    return 1;
  }

  std::cout << reply.message() << " (from " << context.peer() << " via "
            << channel->device() << ")" << std::endl;
  return 0;
}
