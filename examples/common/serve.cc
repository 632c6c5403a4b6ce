#include "examples/common/serve.h"

#include <csignal>
#include <iostream>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "rpc/server.h"

namespace examples {

int Serve(verbena::ServerBuilder& builder, const Announce& announce) {
  // Blocks the signals before any thread starts, so that only sigwait() below
  // gets them.
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGINT);
  sigaddset(&stop_signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);

  absl::StatusOr<std::unique_ptr<verbena::Server>> server =
      builder.BuildAndStart();
  if (!server.ok()) {
    std::cerr << "cannot serve: " << server.status() << std::endl;
    return 1;
  }
  const std::string address = (*server)->listening().front().address;
  std::shared_ptr<void> announced;
  if (announce) announced = announce(address);
  std::cout << "listening on " << address << std::endl;

  int signal = 0;
  sigwait(&stop_signals, &signal);
  announced = nullptr;  // No new calls come while the open ones end.
  (*server)->Shutdown(absl::Now() + absl::Seconds(5));
  return 0;
}

}  // namespace examples
