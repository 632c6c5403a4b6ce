#include <csignal>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rpc/server.h"
#include "rpc/server_builder.h"
#include "rpc/service.h"
#include "tools/child/server_child.h"
#include "tools/rpc_bench/bench.h"
#include "tools/rpc_bench/echo.verbena.h"
#include "tools/rpc_bench/echo_services.h"
#include "tools/rpc_bench/host.h"
#include "tools/rpc_bench/transport_layer.h"
#include "tools/rpc_bench/verbs_count.h"
#include "tools/rpc_bench/verbs_layer.h"
#include "transport/base/socket_address.h"
#include "transport/base/status_macros.h"
#include "transport/device.h"
#include "transport/server_endpoint.h"

namespace verbena::bench {
namespace {

// Answers with `description`, which is set before the server starts, and with
// the counts at that time.
class DescribeService final : public Bench::Service {
 public:
  DescribeService() { set_handler_mode(HandlerMode::kInline); }

  absl::Status Describe(ServerContext* /*context*/,
                        const DescribeRequest* /*request*/,
                        DescribeReply* reply) override {
    *reply = description;
    reply->set_cpu_ns(absl::ToInt64Nanoseconds(CpuUsed()));
    // There is a count only with --verbs-count.
    if (description.has_verbs()) *reply->mutable_verbs() = VerbsCounted();
    return absl::OkStatus();
  }

  DescribeReply description;
};

}  // namespace

// Starts the transport and the verbs servers first, because the RPC server
// tells clients their ports. Signals are blocked before any thread starts, so
// that only sigwait() gets them.
absl::Status Serve(const std::string& address, const Options& options) {
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGINT);
  sigaddset(&stop_signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);

  const int processor = options.pinning.server;
  // Before any server starts its threads, which inherit the processor.
  if (processor >= 0) RETURN_IF_ERROR(PinTo(processor));
  const std::string& device = options.endpoint.device;
  if (options.verbs_count) CountVerbsOfDevices(device);
  ASSIGN_OR_RETURN(base::SocketAddress any_port,
                   base::SocketAddress::Parse(address));
  any_port.set_port(0);
  TransportEcho transport_echo;
  ASSIGN_OR_RETURN(
      const std::unique_ptr<transport::ServerEndpoint> transport_server,
      transport::ServerEndpoint::Start(
          {.endpoint = options.endpoint, .addresses = {any_port.ToString()}},
          transport_echo));
  // Each provider that the device allows has a server. All have the same port.
  std::vector<std::unique_ptr<VerbsServer>> verbs;
  for (const transport::Provider* provider :
       transport::ListenProviders(device)) {
    ASSIGN_OR_RETURN(verbs.emplace_back(),
                     VerbsServer::Start(*provider, any_port));
    any_port.set_port(verbs.back()->port());
  }

  DescribeService bench;
  DescribeReply& description = bench.description;
  description.set_transport_port(transport_server->listening().front().port);
  description.set_verbs_port(verbs.front()->port());
  description.set_pinned_to(processor);
  description.set_events(options.events);
  if (options.verbs_count) *description.mutable_verbs() = VerbsCounted();
  const std::unique_ptr<Service> echo = NewEchoService(options.measured.api);
  ServerBuilder builder;
  ASSIGN_OR_RETURN(std::shared_ptr<ServerCredentials> credentials,
                   ServerCredentialsFromFiles(options.tls));
  builder.AddListeningPort(address, std::move(credentials))
      .SetSpinBudget(options.endpoint.spin_budget)
      .SetMaxConcurrentCallsPerConnection(kMaxStreams + 1)
      .RegisterService(echo.get())
      .RegisterService(&bench);
  if (!device.empty()) builder.SetDevice(device);
  ASSIGN_OR_RETURN(const std::unique_ptr<Server> server,
                   builder.BuildAndStart());

  std::string devices;
  for (const Server::Listening& listening : server->listening()) {
    absl::StrAppend(&devices, devices.empty() ? "" : ", ", listening.device);
  }
  std::cout << tools::ListeningLine(server->listening().front().address,
                                    devices)
            << std::endl;

  int signal = 0;
  sigwait(&stop_signals, &signal);
  server->Shutdown(absl::Now() + absl::Seconds(1));
  return absl::OkStatus();
}

}  // namespace verbena::bench
