// Everything a user of Verbena includes, beside the generated code.
//
// Verbena calls services over RDMA, and over a software device of its own where
// there is none. If you know gRPC C++, you know Verbena: the nouns are the
// same, and grpc::Status is absl::Status.
//
// 1. Describe the service, greeter.proto:
//
//      syntax = "proto3";
//      package helloworld;
//      message HelloRequest { string name = 1; }
//      message HelloReply { string message = 1; }
//      service Greeter { rpc SayHello(HelloRequest) returns (HelloReply); }
//
//    A `cc_verbena_library` in Bazel (see rpc/verbena_library.bzl), or protoc
//    with protoc-gen-verbena, makes greeter.verbena.h of it.
//
// 2. Serve it:
//
//      class GreeterService final : public helloworld::Greeter::Service {
//        absl::Status SayHello(verbena::ServerContext* context,
//                              const helloworld::HelloRequest* request,
//                              helloworld::HelloReply* reply) override {
//          reply->set_message("Hello " + request->name());
//          return absl::OkStatus();
//        }
//      };
//
//      GreeterService service;
//      verbena::ServerBuilder builder;
//      builder.AddListeningPort("0.0.0.0:50051");  // On every device.
//      builder.RegisterService(&service);
//      absl::StatusOr<std::unique_ptr<verbena::Server>> server =
//          builder.BuildAndStart();
//      if (!server.ok()) { ... }
//      (*server)->Wait();
//
//    Handlers may block. Those that turn out to be short run where the server
//    polls the network, the others on a pool of worker threads.
//
// 3. Call it:
//
//      std::shared_ptr<verbena::Channel> channel =
//          verbena::CreateChannel("10.0.0.7:50051");
//      auto stub = helloworld::Greeter::NewStub(channel);
//
//      verbena::ClientContext context;  // One a call.
//      context.set_timeout(absl::Milliseconds(5));
//      helloworld::HelloRequest request;
//      helloworld::HelloReply reply;
//      absl::Status status = stub->SayHello(&context, request, &reply);
//
//    or without waiting; context, request and reply live until the callback:
//
//      stub->async()->SayHello(&context, &request, &reply,
//                              [](absl::Status status) { ... });
//
// 4. A method may stream, `rpc Chat(stream Note) returns (stream Note);`. Its
//    handler reads and writes, and so does its client (server_stream.h and
//    client_stream.h, which the generated code includes):
//
//      auto stream = stub->Chat(&context);
//      stream->Write(note);
//      while (stream->Read(&answer)) ...
//      stream->WritesDone();
//      absl::Status status = stream->Finish();
//
// How a call can end, beside what the handler returns:
//
//   DEADLINE_EXCEEDED    The context's deadline passed.
//   CANCELLED            ClientContext::TryCancel() was called, or the channel
//                        is gone.
//   UNAVAILABLE          There is no connection, or it was lost. The message
//                        names the server.
//   UNIMPLEMENTED        The server has no such service or method.
//   RESOURCE_EXHAUSTED   A message is longer than either side allows, there is
//                        too much metadata, too many calls wait for the
//                        server's workers, or the system gave the server or
//                        the client no thread or descriptor.
//   INVALID_ARGUMENT     The target or an option makes no sense, or the request
//                        lacks a required field.
//   INTERNAL             A message could not be parsed.
//   UNKNOWN              The handler threw an exception.
//   FAILED_PRECONDITION  The call's context is in use by another call.
//   UNAUTHENTICATED      The server and the channel do not believe each other's
//                        credentials: see rpc/credentials.h.

#ifndef VERBENA_RPC_RPC_H_
#define VERBENA_RPC_RPC_H_

#include "rpc/buffer.h"           // IWYU pragma: export
#include "rpc/channel.h"          // IWYU pragma: export
#include "rpc/channel_options.h"  // IWYU pragma: export
#include "rpc/channel_state.h"    // IWYU pragma: export
#include "rpc/client_context.h"   // IWYU pragma: export
#include "rpc/metadata.h"         // IWYU pragma: export
#include "rpc/server.h"           // IWYU pragma: export
#include "rpc/server_builder.h"   // IWYU pragma: export
#include "rpc/server_context.h"   // IWYU pragma: export
#include "rpc/service.h"          // IWYU pragma: export
#include "rpc/version.h"          // IWYU pragma: export

#endif  // VERBENA_RPC_RPC_H_
