// Serves weather.Weather by coroutines until it gets SIGINT or SIGTERM.

#include <cstdint>
#include <map>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "examples/common/serve.h"
#include "examples/coroutines/weather.verbena.h"
#include "rpc/server_builder.h"
#include "rpc/server_context.h"
#include "rpc/server_coroutine.h"
#include "rpc/task.h"

ABSL_FLAG(std::string, listen, "127.0.0.1:50058",
          "address and port to serve on; port 0 takes any free one");

namespace weather {
namespace {

absl::Status Look(const City& city, Report* report) {
  static const auto* const kCelsius = new std::map<std::string, int32_t>{
      {"Lisbon", 24}, {"Oslo", 9}, {"Warsaw", 17}};
  const auto found = kCelsius->find(city.name());
  if (found == kCelsius->end()) {
    return absl::NotFoundError(
        absl::StrCat("there is no city \"", city.name(), "\""));
  }
  report->set_city(city.name());
  report->set_celsius(found->second);
  return absl::OkStatus();
}

// Handlers that begin on the thread that polls the network, and continue there.
// A call that waits needs no thread, so any number of calls may be open.
class WeatherService final : public Weather::CoroutineService {
  verbena::Task<absl::Status> Now(verbena::ServerContext* /*context*/,
                                  const City* city, Report* report) override {
    co_return Look(*city, report);
  }

  verbena::Task<absl::Status> Follow(
      verbena::ServerContext* /*context*/,
      verbena::CoroutineServerReaderWriter<Report, City>* stream) override {
    City city;
    while (co_await stream->Read(&city)) {
      Report report;
      const absl::Status status = Look(city, &report);
      if (!status.ok()) co_return status;
      // Write() returns false if the call has ended, or the client is gone.
      if (!co_await stream->Write(report)) break;
    }
    co_return absl::OkStatus();
  }
};

}  // namespace
}  // namespace weather

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Serves weather.Weather.");
  absl::ParseCommandLine(argc, argv);

  weather::WeatherService service;
  verbena::ServerBuilder builder;
  builder.AddListeningPort(absl::GetFlag(FLAGS_listen));
  builder.RegisterService(&service);
  return examples::Serve(builder);
}
