// Forwards every call to one server, whatever its services are.

#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "examples/common/serve.h"
#include "examples/generic_proxy/forwarder.h"
#include "rpc/channel.h"
#include "rpc/server_builder.h"

ABSL_FLAG(std::string, listen, "127.0.0.1:50053",
          "address and port to serve on; port 0 takes any free one");
ABSL_FLAG(std::string, backend, "127.0.0.1:50052",
          "address and port of the server that gets the calls");

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Forwards every call to one server.");
  absl::ParseCommandLine(argc, argv);

  generic_proxy::Forwarder forwarder(
      verbena::CreateChannel(absl::GetFlag(FLAGS_backend)));
  verbena::ServerBuilder builder;
  builder.AddListeningPort(absl::GetFlag(FLAGS_listen));
  builder.RegisterGenericService(&forwarder);
  return examples::Serve(builder);
}
