// A user's first program: a service, a unary call by a coroutine, and a stream,
// in one process. Built against an installed library, with the include path
// that the headers have there.

#include <iostream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "greeter.verbena.h"
#include "verbena/rpc.h"

namespace {

class GreeterService final : public consumer::Greeter::Service {
  absl::Status SayHello(verbena::ServerContext* /*context*/,
                        const consumer::HelloRequest* request,
                        consumer::HelloReply* reply) override {
    reply->set_message(absl::StrCat("Hello ", request->name()));
    return absl::OkStatus();
  }

  absl::Status Count(
      verbena::ServerContext* /*context*/,
      const consumer::HelloRequest* request,
      verbena::ServerWriter<consumer::HelloReply>* writer) override {
    for (int i = 1; i <= 3; ++i) {
      consumer::HelloReply reply;
      reply.set_message(absl::StrCat(request->name(), " ", i));
      writer->Write(reply);
    }
    return absl::OkStatus();
  }
};

verbena::Task<absl::Status> Greet(consumer::Greeter::Stub* stub,
                                  const consumer::HelloRequest& request,
                                  consumer::HelloReply* reply) {
  verbena::ClientContext context;
  co_return co_await stub->co()->SayHello(&context, request, reply);
}

absl::Status Run() {
  GreeterService service;
  int port = 0;
  verbena::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", &port).RegisterService(&service);
  absl::StatusOr<std::unique_ptr<verbena::Server>> server =
      builder.BuildAndStart();
  if (!server.ok()) return server.status();
  std::unique_ptr<consumer::Greeter::Stub> stub = consumer::Greeter::NewStub(
      verbena::CreateChannel(absl::StrCat("127.0.0.1:", port)));

  consumer::HelloRequest request;
  request.set_name("world");
  consumer::HelloReply reply;
  absl::Status status = verbena::SyncWait(Greet(stub.get(), request, &reply));
  if (!status.ok()) return status;
  std::cout << reply.message() << std::endl;

  verbena::ClientContext context;
  std::unique_ptr<verbena::ClientReader<consumer::HelloReply>> reader =
      stub->Count(&context, request);
  while (reader->Read(&reply)) std::cout << reply.message() << std::endl;
  return reader->Finish();
}

}  // namespace

int main() {
  const absl::Status status = Run();
  if (!status.ok()) std::cerr << status << std::endl;
  return status.ok() ? 0 : 1;
}
