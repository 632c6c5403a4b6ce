// The server of README.md. A test of the documents compares the two.

#include <iostream>

#include "greeter/greeter.verbena.h"
#include "rpc/rpc.h"

class GreeterService final : public greeter::Greeter::Service {
  absl::Status SayHello(verbena::ServerContext* context,
                        const greeter::HelloRequest* request,
                        greeter::HelloReply* reply) override {
    reply->set_message("Hello " + request->name());
    return absl::OkStatus();
  }
};

int main() {
  GreeterService service;
  verbena::ServerBuilder builder;
  builder.AddListeningPort(
      "0.0.0.0:50051");  // Every RDMA device, and the software device.
  builder.RegisterService(&service);
  absl::StatusOr<std::unique_ptr<verbena::Server>> server =
      builder.BuildAndStart();
  if (!server.ok()) {
    std::cerr << server.status() << "\n";
    return 1;
  }
  (*server)->Wait();
}
