// Asks a weather.Weather for several cities: all at once, then in one stream.

#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "examples/coroutines/weather.verbena.h"
#include "rpc/channel.h"
#include "rpc/client_context.h"
#include "rpc/client_coroutine.h"
#include "rpc/task.h"

ABSL_FLAG(std::string, target, "127.0.0.1:50058", "address and port to call");
ABSL_FLAG(std::vector<std::string>, cities,
          std::vector<std::string>({"Lisbon", "Oslo", "Warsaw"}),
          "the cities whose weather is asked for");

namespace weather {
namespace {

// How long each call may take.
constexpr absl::Duration kTimeout = absl::Seconds(10);

// Takes `name` by value, because a coroutine may outlive the variables of the
// function that calls it.
verbena::Task<absl::StatusOr<Report>> Now(Weather::Stub* stub,
                                          std::string name) {
  verbena::ClientContext context;
  context.set_timeout(kTimeout);
  City city;
  city.set_name(std::move(name));
  Report report;
  const absl::Status status = co_await stub->co()->Now(&context, city, &report);
  if (!status.ok()) co_return status;
  co_return report;
}

// Makes all calls at the same time. WhenAll() returns the reports in the order
// of the cities.
verbena::Task<absl::Status> AllAtOnce(Weather::Stub* stub) {
  std::vector<verbena::Task<absl::StatusOr<Report>>> calls;
  for (const std::string& name : absl::GetFlag(FLAGS_cities)) {
    calls.push_back(Now(stub, name));
  }
  for (const absl::StatusOr<Report>& report :
       co_await verbena::WhenAll(std::move(calls))) {
    if (!report.ok()) co_return report.status();
    std::cout << report->city() << " has " << report->celsius() << " degrees"
              << std::endl;
  }
  co_return absl::OkStatus();
}

verbena::Task<absl::Status> OneByOne(Weather::Stub* stub) {
  verbena::ClientContext context;
  context.set_timeout(kTimeout);
  auto stream = stub->co()->Follow(&context);
  for (const std::string& name : absl::GetFlag(FLAGS_cities)) {
    City city;
    city.set_name(name);
    Report report;
    // If one returns false, the call has ended. Finish() returns the reason.
    if (!co_await stream.Write(city) || !co_await stream.Read(&report)) break;
    std::cout << report.city() << " still has " << report.celsius()
              << std::endl;
  }
  stream.WritesDone();
  co_return co_await stream.Finish();
}

verbena::Task<absl::Status> Ask(Weather::Stub* stub) {
  absl::Status status = co_await AllAtOnce(stub);
  if (status.ok()) status = co_await OneByOne(stub);
  co_return status;
}

}  // namespace
}  // namespace weather

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Asks a weather.Weather.");
  absl::ParseCommandLine(argc, argv);

  auto stub = weather::Weather::NewStub(
      verbena::CreateChannel(absl::GetFlag(FLAGS_target)));
  const absl::Status status = verbena::SyncWait(weather::Ask(stub.get()));
  if (!status.ok()) {
    std::cerr << "no weather: " << status << std::endl;
    return 1;
  }
  return 0;
}
