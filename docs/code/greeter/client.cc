// The client of README.md. A test of the documents compares the two.

#include <iostream>

#include "greeter/greeter.verbena.h"
#include "rpc/rpc.h"

int main() {
  std::shared_ptr<verbena::Channel> channel =
      verbena::CreateChannel("127.0.0.1:50051");
  std::unique_ptr<greeter::Greeter::Stub> stub =
      greeter::Greeter::NewStub(channel);

  greeter::HelloRequest request;
  request.set_name("Ada");
  greeter::HelloReply reply;
  verbena::ClientContext context;
  context.set_timeout(absl::Seconds(1));
  absl::Status status = stub->SayHello(&context, request, &reply);
  std::cout << (status.ok() ? reply.message() : status.ToString()) << " (via "
            << channel->device() << ")\n";
}
