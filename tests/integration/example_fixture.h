// Programs of examples/, run as a user runs them. The test's first argument is
// the path of examples/hello's server, from which the others are found.
//
// Honours VERBENA_DEVICE and VERBENA_TEST_ADDRESS.

#ifndef VERBENA_TESTS_INTEGRATION_EXAMPLE_FIXTURE_H_
#define VERBENA_TESTS_INTEGRATION_EXAMPLE_FIXTURE_H_

#include <csignal>
#include <string>
#include <vector>

#include "tests/testing/child_process.h"

namespace verbena {

// The path of the program `name`, "hello/client".
std::string ExamplePath(const std::string& name);

// A server that has begun to listen; fails the test if it does not.
class ExampleServer {
 public:
  explicit ExampleServer(const std::string& name,
                         const std::vector<std::string>& flags = {});

  // Where it listens, and the first line that it printed.
  const std::string& target() const { return target_; }
  const std::string& first_line() const { return first_line_; }
  // Output behind the lines that were read. Complete once it has been stopped.
  const std::string& output() const { return process_.output(); }
  const std::string& errors() const { return process_.errors(); }

  // Returns the next line of its output.
  std::string ReadLine() { return process_.ReadLine(); }

  // Returns its exit code.
  int Stop(int signal = SIGTERM);

 private:
  testing_support::ChildProcess process_;
  const std::string first_line_;
  const std::string target_;
};

// Runs the client `name` to its end.
testing_support::Ran RunExample(const std::string& name,
                                const std::string& target,
                                const std::vector<std::string>& flags = {});

}  // namespace verbena

#endif  // VERBENA_TESTS_INTEGRATION_EXAMPLE_FIXTURE_H_
