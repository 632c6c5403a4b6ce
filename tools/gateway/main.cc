// verbena-gateway: a bridge between gRPC and Verbena. See docs/gateway.md.

#include <csignal>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "rpc/logging.h"
#include "tools/command_line/parse_flags.h"
#include "tools/gateway/gateway.h"

ABSL_FLAG(std::string, from, "",
          "where clients call: grpc://HOST:PORT or verbena://HOST:PORT; port 0 "
          "takes any free one");
ABSL_FLAG(std::string, to, "",
          "the server that gets the calls: verbena://HOST:PORT if --from is "
          "grpc://, else grpc://HOST:PORT");
ABSL_FLAG(std::string, device, "",
          "soft, or the name of an RDMA device, for Verbena's side; default: "
          "the best one to call, or all to listen on");
ABSL_FLAG(int64_t, max_message_bytes, int64_t{65} << 20,
          "the largest message that passes in either direction, in bytes");
ABSL_FLAG(
    bool, wait_for_ready, false,
    "let calls wait until their deadlines if the server cannot be reached");
ABSL_FLAG(absl::Duration, grace, absl::Seconds(5),
          "how long open calls may go on after SIGTERM or SIGINT");

namespace {

constexpr char kUsageText[] =
    R"( passes calls on from gRPC to Verbena, or the other way.

  verbena-gateway --from=grpc://0.0.0.0:50051 --to=verbena://HOST:PORT
  verbena-gateway --from=verbena://0.0.0.0:50051 --to=grpc://HOST:PORT

Exit status: 0 after SIGTERM or SIGINT; 1 it cannot listen; 2 the command line
is wrong.
)";

// Starts the gateway, prints where it listens, and serves until a signal. Exit
// codes are those of kUsageText.
int Main() {
  // Blocks the signals before any thread starts, so that only sigwait() below
  // gets them.
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGINT);
  sigaddset(&stop_signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);

  if (absl::GetFlag(FLAGS_grace) < absl::ZeroDuration()) {
    std::cerr << "verbena-gateway: --grace is negative" << std::endl;
    return 2;
  }
  // The log tells the operator whether the gateway is connected, and why not.
  verbena::SetLogSink(
      [](const verbena::LogEntry& entry) {
        std::cerr << absl::StrCat("verbena-gateway: ", entry.text, "\n");
      },
      verbena::LogSeverity::kInfo);

  verbena::gateway::GatewayOptions options;
  options.from = absl::GetFlag(FLAGS_from);
  options.to = absl::GetFlag(FLAGS_to);
  options.device = absl::GetFlag(FLAGS_device);
  options.max_message_bytes = absl::GetFlag(FLAGS_max_message_bytes);
  options.wait_for_ready = absl::GetFlag(FLAGS_wait_for_ready);
  const absl::StatusOr<std::unique_ptr<verbena::gateway::Gateway>> gateway =
      verbena::gateway::Gateway::Start(options);
  if (!gateway.ok()) {
    std::cerr << "verbena-gateway: " << gateway.status().message() << std::endl;
    return absl::IsInvalidArgument(gateway.status()) ? 2 : 1;
  }
  std::cout << "listening on " << (*gateway)->address() << " for " << options.to
            << std::endl;

  int signal = 0;
  sigwait(&stop_signals, &signal);
  (*gateway)->Shutdown(absl::Now() + absl::GetFlag(FLAGS_grace));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  verbena::tool::ReadCommandLine(
      argc, argv, {.name = "verbena-gateway", .about = kUsageText});
  return Main();
}
