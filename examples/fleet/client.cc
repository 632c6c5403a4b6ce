// Gives tasks to the fleet.Worker servers of a service, and prints how many
// each has done, and how fast.

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "examples/fleet/fleet.verbena.h"
#include "examples/fleet/registry.h"
#include "rpc/channel.h"
#include "rpc/client_context.h"

ABSL_FLAG(std::string, target, "",
          "the service, such as file:///tmp/fleet.json or etcd:///fleet");
ABSL_FLAG(std::string, service_config, "",
          "the service config in JSON, if the target has none");
ABSL_FLAG(absl::Duration, time, absl::Seconds(3), "how long to give tasks");
ABSL_FLAG(uint64_t, tasks, 0,
          "give so many tasks instead, however long it takes");
ABSL_FLAG(int, threads, 4, "tasks under way at once");

namespace fleet {
namespace {

struct Results {
  std::map<std::string, std::vector<absl::Duration>> times;  // By server.
  std::map<std::string, int> failures;                       // By status.
};

// Gives `count` tasks, or if that is 0, until `end`.
Results GiveTasks(Worker::Stub& stub, uint64_t count, absl::Time end) {
  Results results;
  Task task;
  while (count == 0 ? absl::Now() < end : task.number() < count) {
    verbena::ClientContext context;
    context.set_timeout(absl::Seconds(10));
    task.set_number(task.number() + 1);
    Done done;
    const absl::Time begin = absl::Now();
    const absl::Status status = stub.Work(&context, task, &done);
    if (status.ok()) {
      results.times[done.by()].push_back(absl::Now() - begin);
    } else {
      ++results.failures[status.ToString()];
    }
  }
  return results;
}

double Percentile(const std::vector<absl::Duration>& sorted, double part) {
  const size_t position = static_cast<size_t>(part * (sorted.size() - 1));
  return absl::ToDoubleMicroseconds(sorted[position]);
}

void Print(const Results& results) {
  std::cout << absl::StrFormat("%-12s %9s %10s %10s\n", "server", "tasks",
                               "p50, us", "p99, us");
  const auto print = [](const std::string& name,
                        std::vector<absl::Duration> times) {
    std::sort(times.begin(), times.end());
    std::cout << absl::StrFormat("%-12s %9d %10.1f %10.1f\n", name,
                                 times.size(), Percentile(times, 0.5),
                                 Percentile(times, 0.99));
  };
  std::vector<absl::Duration> all;
  for (const auto& [server, times] : results.times) {
    print(server, times);
    all.insert(all.end(), times.begin(), times.end());
  }
  if (!all.empty()) print("all", all);
  int failed = 0;
  for (const auto& [status, count] : results.failures) {
    failed += count;
    std::cout << absl::StrFormat("%d failed: %s\n", count, status);
  }
  std::cout << absl::StrFormat("%d tasks, %d failed\n", all.size() + failed,
                               failed);
}

}  // namespace
}  // namespace fleet

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Gives tasks to a service of fleet.Worker.");
  absl::ParseCommandLine(argc, argv);

  verbena::ChannelOptions options;
  options.service_config = absl::GetFlag(FLAGS_service_config);
  fleet::AddResolvers(options);
  const auto stub = fleet::Worker::NewStub(
      verbena::CreateChannel(absl::GetFlag(FLAGS_target), options));
  const absl::Time end = absl::Now() + absl::GetFlag(FLAGS_time);
  std::vector<fleet::Results> of_threads(absl::GetFlag(FLAGS_threads));
  const uint64_t count =
      absl::GetFlag(FLAGS_tasks) / absl::GetFlag(FLAGS_threads);
  std::vector<std::thread> threads;
  for (fleet::Results& results : of_threads) {
    threads.emplace_back(
        [&] { results = fleet::GiveTasks(*stub, count, end); });
  }
  for (std::thread& thread : threads) thread.join();

  fleet::Results all;
  for (fleet::Results& results : of_threads) {
    for (auto& [server, times] : results.times) {
      auto& of_server = all.times[server];
      of_server.insert(of_server.end(), times.begin(), times.end());
    }
    for (const auto& [status, count] : results.failures) {
      all.failures[status] += count;
    }
  }
  fleet::Print(all);
  return all.failures.empty() && !all.times.empty() ? 0 : 1;
}
