// The client in docs/coming-from-grpc.md: see ../calls.cc.

#include <iostream>

#include "greeter.verbena.h"
#include "verbena/rpc.h"

int main() {
  HelloRequest request;
  HelloReply reply;
  auto channel = verbena::CreateChannel("host:50051");
  auto stub = Greeter::NewStub(channel);
  verbena::ClientContext context;
  context.set_timeout(absl::Seconds(1));
  absl::Status status = stub->SayHello(&context, request, &reply);
  if (!status.ok()) std::cerr << status.message();
}
