// Serves fleet.Worker until it gets SIGINT or SIGTERM.

#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "examples/common/serve.h"
#include "examples/fleet/fleet.verbena.h"
#include "examples/fleet/registry.h"
#include "rpc/server_builder.h"
#include "rpc/server_context.h"

ABSL_FLAG(std::string, listen, "127.0.0.1:0",
          "address and port to serve on; port 0 takes any free one");
ABSL_FLAG(std::string, name, "worker", "the name of this server in answers");
ABSL_FLAG(absl::Duration, work, absl::Microseconds(10),
          "how long a task occupies a processor");

namespace fleet {
namespace {

class WorkerService final : public Worker::Service {
  absl::Status Work(verbena::ServerContext* /*context*/, const Task* /*task*/,
                    Done* done) override {
    const absl::Time end = absl::Now() + absl::GetFlag(FLAGS_work);
    while (absl::Now() < end) {
    }
    done->set_by(absl::GetFlag(FLAGS_name));
    return absl::OkStatus();
  }
};

}  // namespace
}  // namespace fleet

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Serves fleet.Worker.");
  absl::ParseCommandLine(argc, argv);

  fleet::WorkerService service;
  verbena::ServerBuilder builder;
  builder.AddListeningPort(absl::GetFlag(FLAGS_listen));
  builder.RegisterService(&service);
  return examples::Serve(builder, fleet::Announce);
}
