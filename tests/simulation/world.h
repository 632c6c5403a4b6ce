// A process in which time stands still until everything has been done that
// there is to do: clients, servers and the software device on one thread and
// one clock.

#ifndef VERBENA_TESTS_SIMULATION_WORLD_H_
#define VERBENA_TESTS_SIMULATION_WORLD_H_

#include <functional>
#include <map>
#include <vector>

#include "absl/time/time.h"
#include "transport/server_endpoint.h"
#include "transport/soft/simulation.h"

namespace verbena::simulation {

// The only one of its process: from Get() on the program's clock_gettime() is
// this one's, no channel has a thread, and the software device has none.
//
// What is not simulated: worker threads (handlers are to run inline), blocking
// calls, name servers, devices other than the software device, and other
// processes. What differs from run to run and must decide nothing: addresses of
// memory, port numbers, keys and descriptors.
class World {
 public:
  static World& Get();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  absl::Time Now() const;

  // What is random from now on comes from `seed`.
  void Seed(uint64_t seed);

  // A server that takes part, until Remove(). Its Options::wait is Step().
  void Add(transport::ServerEndpoint* server) { servers_.push_back(server); }
  void Remove(transport::ServerEndpoint* server) {
    std::erase(servers_, server);
  }

  // Has `action` done at `time`, by the step that comes there.
  void At(absl::Time time, std::function<void()> action) {
    actions_.emplace(time, std::move(action));
  }

  // Does what is due, each part of the world once. If that is nothing, moves
  // the clock to when something will be; else by a microsecond.
  void Step();

  // Steps until `done()`; false if it is not by `latest`.
  bool RunUntil(const std::function<bool()>& done, absl::Time latest);

 private:
  World();

  // Whether there was something to do.
  bool StepParts();
  bool RunActions();
  // When there will be something, but for the device.
  absl::Time NextStep() const;

  soft::Simulation& device_;
  std::vector<transport::ServerEndpoint*> servers_;
  std::multimap<absl::Time, std::function<void()>> actions_;
};

}  // namespace verbena::simulation

#endif  // VERBENA_TESTS_SIMULATION_WORLD_H_
