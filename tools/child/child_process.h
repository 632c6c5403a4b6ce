// A program that runs as a child of this one. All tools and tests start
// processes by this class.

#ifndef VERBENA_TOOLS_CHILD_CHILD_PROCESS_H_
#define VERBENA_TOOLS_CHILD_CHILD_PROCESS_H_

#include <sys/types.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "transport/base/unique_fd.h"

namespace verbena::tools {

// Starts `command`, whose first element is the program, as a process that is
// killed when the thread that started it ends. It inherits the first descriptor
// of each pair under the number of the second, and no other that is to be
// closed. Returns -1 if there can be no further process; any other failure to
// start shows as exit code 127.
pid_t Spawn(const std::vector<std::string>& command,
            std::initializer_list<std::pair<int, int>> descriptors);

// Writes to the standard input of a running program and reads its outputs. The
// destructor kills it. For one thread.
//
// A wait during which the process prints nothing has a bound. Past the bound
// the process is killed, errors() says so, and Wait() returns kTimedOut.
class ChildProcess {
 public:
  // Longer than anything takes under a sanitizer in an emulated machine.
  static constexpr absl::Duration kPatience = absl::Minutes(2);
  static constexpr int kTimedOut = -1000;

  // Its standard error goes to errors(), or is ours, too.
  enum class Errors { kKept, kShared };

  explicit ChildProcess(const std::vector<std::string>& command,
                        Errors errors = Errors::kKept);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  // Writes to its standard input. Blocks while the process reads nothing.
  // Returns whether it still reads.
  bool Write(absl::string_view text);
  // Its standard input ends.
  void CloseInput() { input_.Reset(); }

  // Returns the next line of its standard output without the newline, or the
  // rest if the output ends.
  std::string ReadLine(absl::Duration patience = kPatience);

  void Signal(int signal);
  // Stops it, and returns when it has stopped.
  void Stop();
  // Kills it, and returns when it has ended.
  void Kill();
  // Asks it to end by SIGTERM, and kills it if it has not after `patience`.
  void Terminate(absl::Duration patience);

  pid_t pid() const { return pid_; }
  bool timed_out() const { return timed_out_; }

  // Closes its input, and waits for the end of its outputs and of itself.
  // Returns the exit code, minus the signal that killed it, or kTimedOut.
  int Wait();

  // Waits until both outputs have ended: the program and all processes that
  // inherited them have closed them. Returns false if it timed out.
  bool WaitForEndOfOutput(absl::Duration patience = kPatience);

  // Text that the program has printed and ReadLine() has not taken.
  const std::string& output() const { return output_; }
  const std::string& errors() const { return errors_; }

 private:
  // Reads what arrives on either output, and returns false when both have ended
  // or nothing has arrived for `patience`.
  bool ReadSome(absl::Duration patience);

  pid_t pid_ = -1;  // -1: it has been waited for, or never started.
  bool timed_out_ = false;
  base::UniqueFd input_;
  base::UniqueFd output_fd_;  // Empty at its end, like errors_fd_.
  base::UniqueFd errors_fd_;
  std::string output_;
  std::string errors_;
};

// Result of a program that ran to its end.
struct Ran {
  int exit_code = 127;  // As from Wait().
  std::string output;
  std::string errors;
};

// `input`, which must not be long, is its standard input.
Ran RunToEnd(const std::vector<std::string>& command,
             absl::string_view input = "");

}  // namespace verbena::tools

#endif  // VERBENA_TOOLS_CHILD_CHILD_PROCESS_H_
