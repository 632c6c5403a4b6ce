// The server that a program measures when it is given none: itself, once more.

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

// The ADDRESS in such a line, or an error that quotes what is there instead.
absl::StatusOr<std::string> AddressInListeningLine(absl::string_view line);

// A child process that serves. The kernel kills it if this process dies; the
// destructor asks it to stop (SIGTERM), and kills it if it has not in two
// seconds.
class ServerChild {
 public:
  // Runs `command`, whose first element is the path of the program, and waits
  // until it prints its listening line. Its standard error is ours. Fails when
  // it exits first or takes longer than `timeout`.
  //
  // Call it before other threads start, from one that lives as long as the
  // process should.
  static absl::StatusOr<std::unique_ptr<ServerChild>> Start(
      const std::vector<std::string>& command, absl::Duration timeout);

  ServerChild(const ServerChild&) = delete;
  ServerChild& operator=(const ServerChild&) = delete;
  ~ServerChild();

  // Where it listens.
  const std::string& address() const { return address_; }

  pid_t pid() const { return pid_; }

  // A socket to its standard input, and from its standard output what follows
  // the line.
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
