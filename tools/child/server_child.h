// The server process that a program starts when it is given no server to
// measure. The process runs the same program.

#ifndef VERBENA_TOOLS_CHILD_SERVER_CHILD_H_
#define VERBENA_TOOLS_CHILD_SERVER_CHILD_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/child/child_process.h"

namespace verbena::tools {

// The first line that a server prints, without its newline:
// "listening on ADDRESS via DEVICES".
std::string ListeningLine(absl::string_view address, absl::string_view devices);

// Returns the ADDRESS in a listening line, or an error that quotes `line`.
absl::StatusOr<std::string> AddressInListeningLine(absl::string_view line);

// A child process that serves. The destructor asks it to stop, and kills it if
// it does not stop within two seconds.
class ServerChild {
 public:
  // Runs `command` and waits until it prints its listening line. Its standard
  // error is ours. Fails when it exits first or takes longer than `timeout`.
  static absl::StatusOr<std::unique_ptr<ServerChild>> Start(
      const std::vector<std::string>& command, absl::Duration timeout);

  ServerChild(const ServerChild&) = delete;
  ServerChild& operator=(const ServerChild&) = delete;
  ~ServerChild();

  // Where it listens.
  const std::string& address() const { return address_; }

  ChildProcess& process() { return process_; }

 private:
  explicit ServerChild(const std::vector<std::string>& command)
      : process_(command, ChildProcess::Errors::kShared) {}

  ChildProcess process_;
  std::string address_;
};

}  // namespace verbena::tools

#endif  // VERBENA_TOOLS_CHILD_SERVER_CHILD_H_
