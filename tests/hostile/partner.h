// The processes that take part in an attack beside the one that watches.

#ifndef VERBENA_TESTS_HOSTILE_PARTNER_H_
#define VERBENA_TESTS_HOSTILE_PARTNER_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "tests/hostile/attack.h"
#include "tests/testing/child_process.h"

namespace verbena::hostile {

// A process that runs this program in another role. It gets commands as lines
// on its standard input.
class Partner {
 public:
  Partner(const std::string& role, const Target& target, double seconds);

  void Tell(const std::string& line);
  // Returns the next line that begins with `word`, without the word and the
  // blank behind it; empty if there is none. Skips other lines, because the
  // device may print some.
  std::string Hear(const std::string& word);
  testing_support::ChildProcess& process() { return process_; }

 private:
  testing_support::ChildProcess process_;
};

// Roles.
inline constexpr char kServerRole[] = "server";
inline constexpr char kGoodClientRole[] = "good-client";
inline constexpr char kNeighbourRole[] = "neighbour";

// Serves until SIGTERM. Its patience is short: stall_timeout is 2 s.
int BeServer();
// Computes, without a pause and without a word to the server.
int BeNeighbour();
// For each line, which is a number of seconds, makes calls for that time and
// prints their Feeling.
int BeGoodClient(const Target& target);

// The good client's measurements of some time.
struct Feeling {
  int64_t calls = 0;
  int64_t failures = 0;
  double rate = 0;     // Calls a second.
  double p99 = 0;      // Microseconds.
  double longest = 0;  // Milliseconds.
  std::string failure;
};

// Has the good client measure.
Feeling Measure(Partner& good_client, double seconds);

}  // namespace verbena::hostile

#endif  // VERBENA_TESTS_HOSTILE_PARTNER_H_
