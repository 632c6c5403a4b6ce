// Serves fleet.Worker until it gets SIGINT or SIGTERM.

#include <condition_variable>
#include <mutex>
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
ABSL_FLAG(int, workers, 0, "tasks at once; 0: as many as come");
ABSL_FLAG(absl::Duration, pause, absl::ZeroDuration(),
          "how long a task then waits, as for a disk");

namespace fleet {
namespace {

class WorkerService final : public Worker::Service {
  absl::Status Work(verbena::ServerContext* context, const Task* /*task*/,
                    Done* done) override {
    const absl::Time end = absl::Now() + absl::GetFlag(FLAGS_work);
    while (absl::Now() < end) {
    }
    // A task that nobody waits for any more ends at once.
    std::mutex mutex;
    std::unique_lock<std::mutex> lock(mutex);
    std::condition_variable_any().wait_for(
        lock, context->stop_token(),
        absl::ToChronoNanoseconds(absl::GetFlag(FLAGS_pause)),
        [] { return false; });
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
  if (const int workers = absl::GetFlag(FLAGS_workers); workers > 0) {
    builder.SetWorkerThreads(workers).SetMaxWorkerThreads(workers);
  }
  return examples::Serve(builder, fleet::Announce);
}
