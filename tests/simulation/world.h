// World: clients, servers and the software device on one thread and one clock.
// The clock jumps to the next event when nothing is left to do.

#ifndef VERBENA_TESTS_SIMULATION_WORLD_H_
#define VERBENA_TESTS_SIMULATION_WORLD_H_

#include <functional>
#include <map>
#include <vector>

#include "absl/time/time.h"
#include "transport/server_endpoint.h"
#include "transport/soft/simulation.h"

namespace verbena::simulation {

// The only one of its process. From Get() on clock_gettime() of the program
// returns the time of the world, and neither channels nor the software device
// have threads.
//
// Worker threads (handlers are to run inline), blocking calls, name servers,
// other devices and other processes are not simulated. Addresses of memory,
// port numbers, keys and descriptors differ from run to run, and must not
// influence anything.
class World {
 public:
  static World& Get();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  absl::Time Now() const;

  // Seeds the random numbers that channels draw from now on.
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

  // Whether an action is to come.
  bool AnyActions() const { return !actions_.empty(); }

  // Something was done between two steps, and not in an action: the next step
  // looks at all parts. RunUntil() does so by itself.
  void LookEverywhere() { quiet_ = false; }

  // Runs the actions that are due, then each part of the world once. If nothing
  // was due, moves the clock to the next event, else by a microsecond.
  void Step();

  // Steps until `done()` is true. Returns false if it is not by `latest`.
  bool RunUntil(const std::function<bool()>& done, absl::Time latest);
  // Steps for so long.
  void RunFor(absl::Duration time);

 private:
  World();

  // Whether there was something to do. `all`: servers that are not due may have
  // some, too.
  bool StepParts(bool all);
  bool RunActions();
  // Time of the next event that is not one of the device.
  absl::Time NextStep() const;

  soft::Simulation& device_;
  std::vector<transport::ServerEndpoint*> servers_;
  std::multimap<absl::Time, std::function<void()>> actions_;
  // The last step has found nothing to do anywhere, and moved the clock to the
  // next event.
  bool quiet_ = false;
};

}  // namespace verbena::simulation

#endif  // VERBENA_TESTS_SIMULATION_WORLD_H_
