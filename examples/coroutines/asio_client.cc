// Follows the weather of a city, in a program whose own single thread runs an
// event loop of Asio.

#include <chrono>
#include <iostream>
#include <string>
#include <thread>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "asio/executor_work_guard.hpp"
#include "asio/io_context.hpp"
#include "asio/steady_timer.hpp"
#include "examples/coroutines/asio_executor.h"
#include "examples/coroutines/weather.verbena.h"
#include "rpc/channel.h"
#include "rpc/client_context.h"
#include "rpc/client_coroutine.h"
#include "rpc/executor.h"

ABSL_FLAG(std::string, target, "127.0.0.1:50058", "address and port to call");
ABSL_FLAG(std::string, city, "Oslo", "the city whose weather is asked for");
ABSL_FLAG(int, reports, 3, "how many times to ask");

namespace weather {
namespace {

constexpr std::chrono::milliseconds kBetweenReports(100);

// Prints `what`, and whether this thread runs the loop.
void Say(const std::string& what, std::thread::id loop) {
  std::cout << what
            << (std::this_thread::get_id() == loop ? " (on the loop)"
                                                   : " (elsewhere)")
            << std::endl;
}

// Follows the weather in a coroutine on `loop`. When the call has ended, the
// loop has nothing more to do, and its run() returns.
Detached Follow(Weather::Stub* stub, asio::io_context* loop,
                AsioExecutor* executor, absl::Status* status) {
  // A loop ends when it has no work. It does not know of calls, so the guard
  // keeps it running until this coroutine ends.
  const auto busy = asio::make_work_guard(*loop);
  const std::thread::id loop_thread = std::this_thread::get_id();
  verbena::ClientContext context;
  // With an executor, the coroutine always continues there after it has waited
  // for the network.
  auto stream = stub->co(executor)->Follow(&context);
  City city;
  city.set_name(absl::GetFlag(FLAGS_city));
  asio::steady_timer timer(*loop);
  for (int i = 0; i < absl::GetFlag(FLAGS_reports); ++i) {
    Report report;
    if (!co_await stream.Write(city) || !co_await stream.Read(&report)) break;
    Say(report.city() + " has " + std::to_string(report.celsius()),
        loop_thread);
    timer.expires_after(kBetweenReports);
    co_await Expires(&timer);
  }
  stream.WritesDone();
  *status = co_await stream.Finish();

  // Without an executor, a coroutine continues on a thread of the library, and
  // must not block it. ResumeOn() moves the coroutine back to the loop.
  verbena::ClientContext last_context;
  Report report;
  status->Update(co_await stub->co()->Now(&last_context, city, &report));
  co_await verbena::ResumeOn(executor);
  Say("back", loop_thread);
}

}  // namespace
}  // namespace weather

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Follows a weather.Weather.");
  absl::ParseCommandLine(argc, argv);

  asio::io_context loop;
  weather::AsioExecutor executor(&loop);
  auto stub = weather::Weather::NewStub(
      verbena::CreateChannel(absl::GetFlag(FLAGS_target)));
  absl::Status status;
  weather::Follow(stub.get(), &loop, &executor, &status);
  loop.run();
  if (!status.ok()) {
    std::cerr << "no weather: " << status << std::endl;
    return 1;
  }
  return 0;
}
