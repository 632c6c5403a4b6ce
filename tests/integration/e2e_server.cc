// The server of the end-to-end tests as a process of its own.
//
//   e2e_server --listen=127.0.0.1:0
//
// Prints "listening on <address> via <devices>", and serves until SIGTERM.

#include <signal.h>

#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "absl/flags/flag.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "rpc/rpc.h"
#include "tests/integration/test_service.h"
#include "tools/command_line/parse_flags.h"

ABSL_FLAG(std::string, listen, "127.0.0.1:0", "address and port to serve at");
ABSL_FLAG(int, dscp, -1, "ServerBuilder::SetDscp()");

int main(int argc, char** argv) {
  // Before any thread exists, so that only sigwait() sees it.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  verbena::tool::ReadCommandLine(
      argc, argv,
      {.name = "e2e_server", .about = " serves the end-to-end tests\n"});

  verbena::end_to_end::EndToEndService service;
  verbena::end_to_end::InlineService inline_service;
  verbena::end_to_end::TestStreams streams;
  absl::StatusOr<std::unique_ptr<verbena::Server>> server =
      verbena::ServerBuilder()
          .AddListeningPort(absl::GetFlag(FLAGS_listen))
          .RegisterService(&service)
          .RegisterService(&inline_service)
          .RegisterService(&streams)
          .SetWorkerThreads(16)
          .SetDscp(absl::GetFlag(FLAGS_dscp))
          .BuildAndStart();
  if (!server.ok()) {
    std::fprintf(stderr, "e2e_server: %s\n",
                 server.status().ToString().c_str());
    return 1;
  }
  std::string devices;
  for (const auto& listening : (*server)->listening()) {
    absl::StrAppend(&devices, devices.empty() ? "" : ",", listening.device);
  }
  std::printf("listening on %s via %s\n",
              (*server)->listening().front().address.c_str(), devices.c_str());
  std::fflush(stdout);

  int signal = 0;
  sigwait(&signals, &signal);
  (*server)->Shutdown(absl::Now() + absl::Seconds(1));
  return 0;
}
