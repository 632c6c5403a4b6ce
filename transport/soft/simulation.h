// The software device of this process without a thread and on a clock of its
// own: what a test of one thread does with it is the same in every run.
//
//   Simulation& simulation = Simulation::Begin();  // Before any verb.
//   ...                                            // Verbs and RDMA CM.
//   simulation.RunUntil([&] { return Completed(); }, std::chrono::seconds(5));
//
// Queue pairs and identifiers of the process reach each other as ever, over
// shared memory and sockets; but nothing moves unless the test polls, or lets
// the device run. Timeouts, RNR timers and the deadlines of the connection
// manager go by the manual clock, so that seconds pass in no time.
//
// Functions of both tables, verbs and RDMA CM, may be used, the data path too.
// Some things stay outside: numbers (of queue pairs, ports, keys, file
// descriptors), which differ from run to run; other processes and hosts, which
// have clocks of their own; and functions that block, since nobody is there to
// end their wait. Give event channels O_NONBLOCK, and run the device until they
// are readable.

#ifndef VERBENA_TRANSPORT_SOFT_SIMULATION_H_
#define VERBENA_TRANSPORT_SOFT_SIMULATION_H_

#include <chrono>
#include <functional>

#include "transport/soft/base/clock.h"

namespace verbena::soft {

class SoftDevice;

// The simulated device. Confined to one thread, the one that calls the verbs.
// It lives as long as the process.
class Simulation {
 public:
  using TimePoint = Clock::TimePoint;

  // Makes the device of this process a simulated one, for the life of the
  // process. Later calls return the same. Aborts when the device has been used
  // before the first.
  static Simulation& Begin();

  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  TimePoint Now() const;

  // Runs what is due, then moves the clock by the time of a round. If nothing
  // is due, moves the clock to the time at which something will be, though not
  // beyond `latest`. If the clock has reached `latest`, only returns false.
  bool Step(TimePoint latest);

  // Lets that much time pass. What is due at its very end has not happened yet.
  void RunFor(std::chrono::nanoseconds time);

  // Lets time pass until `done()`, which may poll. False when that does not
  // happen within `longest`.
  bool RunUntil(const std::function<bool()>& done,
                std::chrono::nanoseconds longest);

 private:
  explicit Simulation(SoftDevice& device) : device_(device) {}

  SoftDevice& device_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_SIMULATION_H_
