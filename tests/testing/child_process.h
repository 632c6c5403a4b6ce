// Programs of ours, run by a test as a user would run them.

#ifndef VERBENA_TESTS_TESTING_CHILD_PROCESS_H_
#define VERBENA_TESTS_TESTING_CHILD_PROCESS_H_

#include <sys/types.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace verbena::testing_support {

// Starts `command`, whose first element is the path of the program, as a
// process that is killed when the thread that started it ends. It inherits the
// first descriptor of each pair under the number of the second, and no other
// that is to be closed. A failure to start shows as exit code 127.
pid_t Spawn(const std::vector<std::string>& command,
            std::initializer_list<std::pair<int, int>> descriptors);

// A running program whose output the test reads. Killed by the destructor if it
// still runs. Every wait has a bound, after which the process is killed and the
// test fails. For one thread.
class ChildProcess {
 public:
  // `input` becomes its standard input.
  explicit ChildProcess(const std::vector<std::string>& command, int input = 0);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  // The next line of its standard output, without the newline; what there is of
  // it if the output ends.
  std::string ReadLine();

  void Signal(int signal);
  // Stops it, and returns when it has stopped.
  void Stop();
  // Kills it, and returns when it has ended.
  void Kill();

  pid_t pid() const { return pid_; }

  // Waits for the end of its output and of itself. Returns the exit code, or
  // minus the signal that killed it.
  int Wait();

  // Waits until both outputs have ended: the program and all processes that
  // inherited them have closed them.
  void WaitForEndOfOutput();

  // Text that the program has printed and ReadLine() has not taken.
  const std::string& output() const { return output_; }
  const std::string& errors() const { return errors_; }

 private:
  // Reads what arrives on either output, for some time at most. Returns false
  // when both have ended.
  bool ReadSome();

  pid_t pid_ = -1;      // -1 when waited for.
  int output_fd_ = -1;  // -1 when at its end.
  int errors_fd_ = -1;  // -1 when at its end.
  std::string output_;
  std::string errors_;
};

// Result of a program that ran to its end.
struct Ran {
  int exit_code = -1;  // Or minus the signal that killed it.
  std::string output;
  std::string errors;
};

Ran RunToEnd(const std::vector<std::string>& command);

// The address without port at which tests that use a network listen: the
// environment variable VERBENA_TEST_ADDRESS, else "127.0.0.1".
std::string TestAddress();

// The word after `before` in `text`, up to a space or the end; empty when
// `before` is not there.
std::string WordAfter(const std::string& before, const std::string& text);

}  // namespace verbena::testing_support

#endif  // VERBENA_TESTS_TESTING_CHILD_PROCESS_H_
