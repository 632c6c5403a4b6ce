#include "tools/rpc_bench/bench_server.h"

#include <csignal>
#include <iostream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "rpc/server.h"
#include "rpc/server_builder.h"
#include "rpc/server_context.h"
#include "rpc/service.h"
#include "tools/rpc_bench/echo.verbena.h"
#include "tools/rpc_bench/server_process.h"
#include "transport/base/status_macros.h"

namespace verbena::bench {
namespace {

class EchoService final : public Echo::Service {
 public:
  // What is measured is the call, not a hand-over to another thread.
  EchoService() { set_handler_mode(HandlerMode::kInline); }

  absl::Status Echo(ServerContext* /*context*/, const EchoRequest* request,
                    EchoReply* reply) override {
    reply->set_payload(request->payload());
    return absl::OkStatus();
  }
};

}  // namespace

absl::Status Serve(const std::string& address, const std::string& device) {
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGINT);
  sigaddset(&stop_signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);

  EchoService service;
  ServerBuilder builder;
  builder.AddListeningPort(address).RegisterService(&service);
  if (!device.empty()) builder.SetDevice(device);
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
