#include "tools/rpc_bench/bench_server.h"

#include <csignal>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "rpc/server.h"
#include "rpc/server_builder.h"
#include "rpc/server_context.h"
#include "rpc/service.h"
#include "tools/rpc_bench/echo.verbena.h"
#include "tools/rpc_bench/host.h"
#include "tools/rpc_bench/local_device.h"
#include "tools/rpc_bench/server_process.h"
#include "tools/rpc_bench/transport_layer.h"
#include "tools/rpc_bench/verbs_count.h"
#include "tools/rpc_bench/verbs_server.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/socket_address.h"
#include "transport/base/status_macros.h"
#include "transport/device.h"

namespace verbena::bench {
namespace {

class EchoService final : public Echo::Service {
 public:
  // What is measured is the call, not a hand-over to another thread.
  EchoService(DescribeReply description, bool counts)
      : description_(std::move(description)), counts_(counts) {
    set_handler_mode(HandlerMode::kInline);
  }

  absl::Status Echo(ServerContext* context, const EchoRequest* request,
                    EchoReply* reply) override {
    reply->set_payload(request->payload());
    context->set_response_attachment(context->TakeRequestAttachment());
    return absl::OkStatus();
  }

  absl::Status Describe(ServerContext* /*context*/,
                        const DescribeRequest* /*request*/,
                        DescribeReply* reply) override {
    *reply = description_;
    reply->set_cpu_ns(absl::ToInt64Nanoseconds(CpuUsed()));
    if (counts_) *reply->mutable_verbs() = VerbsCounted();
    return absl::OkStatus();
  }

 private:
  const DescribeReply description_;
  const bool counts_;  // It tells what it asks of devices, too.
};

// One for each provider that the device allows, at the same port.
absl::StatusOr<std::vector<std::unique_ptr<VerbsServer>>> StartVerbs(
    const std::string& host, const std::string& device) {
  ASSIGN_OR_RETURN(base::SocketAddress address,
                   base::SocketAddress::Parse(absl::StrCat(host, ":0")));
  transport::EndpointOptions wanted;
  wanted.device = device;
  std::vector<std::unique_ptr<VerbsServer>> servers;
  for (const transport::Provider* provider :
       transport::ListenProviders(transport::WantedDevice(wanted))) {
    ASSIGN_OR_RETURN(std::unique_ptr<VerbsServer> server,
                     VerbsServer::Start(*provider, address));
    address.set_port(server->port());
    servers.push_back(std::move(server));
  }
  return servers;
}

}  // namespace

absl::Status Serve(const BenchServerOptions& options) {
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGINT);
  sigaddset(&stop_signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);

  if (options.verbs_count) CountVerbsOfDevices(options.device);
  const std::string host =
      options.address.substr(0, options.address.rfind(':'));
  transport::EndpointOptions endpoint;
  endpoint.device = options.device;
  endpoint.continued_bytes_max = options.continued_max_bytes;
  if (options.events) endpoint.spin_budget = absl::ZeroDuration();
  ASSIGN_OR_RETURN(const std::unique_ptr<TransportServer> transport_server,
                   TransportServer::Start(host, endpoint));
  ASSIGN_OR_RETURN(const std::vector<std::unique_ptr<VerbsServer>> verbs,
                   StartVerbs(host, options.device));

  DescribeReply description;
  description.set_transport_port(transport_server->port());
  description.set_verbs_port(verbs.front()->port());
  description.set_pinned_to(options.pinned_to);
  description.set_events(options.events);
  EchoService service(std::move(description), options.verbs_count);
  ServerBuilder builder;
  builder.AddListeningPort(options.address)
      .SetSpinBudget(endpoint.spin_budget)
      .RegisterService(&service);
  if (!options.device.empty()) builder.SetDevice(options.device);
  ASSIGN_OR_RETURN(const std::unique_ptr<Server> server,
                   builder.BuildAndStart());

  std::string devices;
  for (const Server::Listening& listening : server->listening()) {
    absl::StrAppend(&devices, devices.empty() ? "" : ", ", listening.device);
  }
  std::cout << ListeningLine(server->listening().front().address, devices)
            << std::endl;

  int signal = 0;
  sigwait(&stop_signals, &signal);
  server->Shutdown(absl::Now() + absl::Seconds(1));
  return absl::OkStatus();
}

}  // namespace verbena::bench
