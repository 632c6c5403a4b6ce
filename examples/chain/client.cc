// Orders work of a chain.Link. SIGINT, which is Ctrl-C, cancels the order.

#include <csignal>
#include <iostream>
#include <string>
#include <thread>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "examples/chain/chain.verbena.h"
#include "rpc/channel.h"
#include "rpc/client_context.h"

ABSL_FLAG(std::string, target, "127.0.0.1:50055", "address and port to call");
ABSL_FLAG(absl::Duration, work, absl::Seconds(1),
          "how long the last server works");
ABSL_FLAG(absl::Duration, timeout, absl::InfiniteDuration(),
          "how long the order may take; default: no deadline");

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Orders work of a chain.Link.");
  absl::ParseCommandLine(argc, argv);

  // Blocks SIGINT before any thread starts, so that only the thread that calls
  // sigwait() below gets it.
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, nullptr);

  auto stub =
      chain::Link::NewStub(verbena::CreateChannel(absl::GetFlag(FLAGS_target)));
  verbena::ClientContext context;
  context.set_timeout(absl::GetFlag(FLAGS_timeout));
  // TryCancel() is thread-safe, and does nothing after the call has ended.
  std::thread canceller([&] {
    int signal = 0;
    sigwait(&interrupt, &signal);
    context.TryCancel();
  });
  chain::Order order;
  order.set_work_ms(absl::ToInt64Milliseconds(absl::GetFlag(FLAGS_work)));
  chain::Report report;
  const absl::Status status = stub->Work(&context, order, &report);
  // Wakes the canceller, if no SIGINT has come before.
  pthread_kill(canceller.native_handle(), SIGINT);
  canceller.join();

  if (!status.ok()) {
    std::cerr << "not done: " << status << std::endl;
    return 1;
  }
  std::cout << "done by " << absl::StrJoin(report.done_by(), ", ") << std::endl;
  return 0;
}
