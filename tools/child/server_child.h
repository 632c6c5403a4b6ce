// The server process that a program starts when it is given no server to
// measure. The process runs the same program.

#ifndef VERBENA_TOOLS_CHILD_SERVER_CHILD_H_
#define VERBENA_TOOLS_CHILD_SERVER_CHILD_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "transport/base/unique_fd.h"

namespace verbena::tools {

// The first line that a server prints, without its newline:
// "listening on ADDRESS via DEVICES".
std::string ListeningLine(absl::string_view address, absl::string_view devices);

// Returns the ADDRESS in a listening line, or an error that quotes `line`.
absl::StatusOr<std::string> AddressInListeningLine(absl::string_view line);

// A child process that serves. The kernel kills it if this process dies. The
// destructor asks it to stop (SIGTERM), and kills it if it does not stop within
// two seconds.
class ServerChild {
 public:
  // Runs `command`, whose first element is the path of the program, and waits
  // until it prints its listening line. Its standard error is ours. Fails when
  // it exits first or takes longer than `timeout`.
  //
  // Call it before other threads start. The kernel kills the child when the
  // calling thread ends.
  static absl::StatusOr<std::unique_ptr<ServerChild>> Start(
      const std::vector<std::string>& command, absl::Duration timeout);

  ServerChild(const ServerChild&) = delete;
  ServerChild& operator=(const ServerChild&) = delete;
  ~ServerChild();

  // Where it listens.
  const std::string& address() const { return address_; }

  pid_t pid() const { return pid_; }

  // A socket to its standard input and from its standard output, from which the
  // listening line has been read.
  int socket() const { return socket_.get(); }

 private:
  ServerChild(pid_t pid, base::UniqueFd socket)
      : pid_(pid), socket_(std::move(socket)) {}

  const pid_t pid_;
  const base::UniqueFd socket_;
  std::string address_;
};

}  // namespace verbena::tools

#endif  // VERBENA_TOOLS_CHILD_SERVER_CHILD_H_
