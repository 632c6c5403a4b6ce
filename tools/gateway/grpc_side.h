// The parts of gRPC that ProbeService and its clients use, under the names that
// VerbenaSide gives to Verbena's.

#ifndef VERBENA_TOOLS_GATEWAY_GRPC_SIDE_H_
#define VERBENA_TOOLS_GATEWAY_GRPC_SIDE_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "rpc/metadata.h"
#include "rpc/status_details.h"
#include "tools/gateway/probe.grpc.pb.h"
#include "tools/gateway/translate.h"

namespace verbena::gateway::test {

struct GrpcSide {
  static constexpr char kScheme[] = "grpc://";
  using Service = over_grpc::Probe::Service;
  using Stub = over_grpc::Probe::Stub;
  using Status = grpc::Status;
  using ServerContext = grpc::ServerContext;
  using ClientContext = grpc::ClientContext;
  template <typename Message>
  using Reader = grpc::ServerReader<Message>;
  template <typename Message>
  using Writer = grpc::ServerWriter<Message>;
  template <typename Message>
  using ReaderWriter = grpc::ServerReaderWriter<Message, Message>;

  static absl::Time Deadline(const ServerContext& context) {
    return DeadlineFromGrpc(context.deadline());
  }
  // gRPC may end the stream some microseconds before it says why.
  static bool WasCancelled(const ServerContext& context) {
    const absl::Time latest = absl::Now() + absl::Seconds(20);
    while (!context.IsCancelled() && absl::Now() < latest) {
      std::this_thread::yield();
    }
    return context.IsCancelled();
  }
  static void SetTimeout(ClientContext* context, absl::Duration timeout) {
    context->set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  }
  static Status FromAbsl(const absl::Status& status) {
    if (status.ok()) return Status::OK;
    return {static_cast<grpc::StatusCode>(status.code()),
            std::string(status.message()), ToGoogleRpcStatus(status)};
  }
  static absl::Status ToAbsl(const Status& status) {
    absl::Status result = FromGrpc(status);
    TakeStatusDetails(status.error_details(), &result);
    return result;
  }
  static Metadata ToMetadata(const GrpcMetadata& metadata) {
    return FromGrpc(metadata);
  }

  class Server {
   public:
    explicit Server(Service* service) {
      grpc::ServerBuilder builder;
      int port = 0;
      builder
          .AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                            &port)
          .SetMaxReceiveMessageSize(-1)
          .RegisterService(service);
      server_ = builder.BuildAndStart();
      address_ = absl::StrCat("127.0.0.1:", port);
    }
    const std::string& address() const { return address_; }

   private:
    std::unique_ptr<grpc::Server> server_;
    std::string address_;
  };

  static std::unique_ptr<Stub> NewStub(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    return over_grpc::Probe::NewStub(grpc::CreateCustomChannel(
        address, grpc::InsecureChannelCredentials(), arguments));
  }
};

}  // namespace verbena::gateway::test

#endif  // VERBENA_TOOLS_GATEWAY_GRPC_SIDE_H_
