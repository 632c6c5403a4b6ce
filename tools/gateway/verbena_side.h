// The parts of Verbena that ProbeService and its clients use, under the names
// that GrpcSide gives to gRPC's.

#ifndef VERBENA_TOOLS_GATEWAY_VERBENA_SIDE_H_
#define VERBENA_TOOLS_GATEWAY_VERBENA_SIDE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rpc/metadata.h"
#include "rpc/rpc.h"
#include "tools/gateway/probe.verbena.h"

namespace verbena::gateway::test {

struct VerbenaSide {
  static constexpr char kScheme[] = "verbena://";
  using Service = Probe::Service;
  using Stub = Probe::Stub;
  using Status = absl::Status;
  using ServerContext = verbena::ServerContext;
  using ClientContext = verbena::ClientContext;
  template <typename Message>
  using Reader = ServerReader<Message>;
  template <typename Message>
  using Writer = ServerWriter<Message>;
  template <typename Message>
  using ReaderWriter = ServerReaderWriter<Message, Message>;

  static absl::Time Deadline(const ServerContext& context) {
    return context.deadline();
  }
  static bool WasCancelled(const ServerContext& context) {
    return context.IsCancelled();
  }
  static void SetTimeout(ClientContext* context, absl::Duration timeout) {
    context->set_timeout(timeout);
  }
  static Status FromAbsl(Status status) { return status; }
  static absl::Status ToAbsl(Status status) { return status; }
  static Metadata ToMetadata(const Metadata& metadata) { return metadata; }

  class Server {
   public:
    explicit Server(Service* service) {
      ServerBuilder builder;
      builder.AddListeningPort("127.0.0.1:0").RegisterService(service);
      server_ = *builder.BuildAndStart();
    }
    std::string address() const { return server_->listening().front().address; }

   private:
    std::unique_ptr<verbena::Server> server_;
  };

  static std::unique_ptr<Stub> NewStub(const std::string& address) {
    return Probe::NewStub(CreateChannel(address));
  }
};

}  // namespace verbena::gateway::test

#endif  // VERBENA_TOOLS_GATEWAY_VERBENA_SIDE_H_
