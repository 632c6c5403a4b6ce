// The commands of the program verbena.

#ifndef VERBENA_TOOLS_VERBENA_COMMANDS_H_
#define VERBENA_TOOLS_VERBENA_COMMANDS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/channel.h"

namespace verbena::tool {

// Exit codes of the program. If a call ends with an error, the exit code is
// kCallFailed plus the number of the status code, for scripts.
enum ExitCode : int {
  kDone = 0,
  kNotServing = 1,
  kUsage = 2,  // An argument is wrong, or names something unknown.
  kCallFailed = 64,
};

// The options of all commands.
struct Options {
  std::shared_ptr<Channel> channel;
  // The timeout of each call. If it is infinite, calls have no deadline.
  absl::Duration timeout = absl::Seconds(10);
  // Whether the user gave the timeout. If not, streams whose requests are typed
  // have no deadline.
  bool timeout_given = false;
  // The files with the schema. If there are none, the server is asked for it.
  std::vector<std::string> proto_files;
  std::vector<std::string> import_dirs = {"."};
  // Sent with the call.
  std::vector<std::pair<std::string, std::string>> metadata;
};

// The input of a call, except its metadata, and the file for the attachment of
// the response.
struct CallInput {
  // The request as JSON, or several, one a line. "-" is for standard input, and
  // "@FILE" for the file FILE.
  std::string data;
  // Files: the first has the attachment of the request, the second gets that of
  // the response. Each may be empty. Only unary calls have attachments.
  std::string attachment;
  std::string response_attachment;
  // Whether the metadata of the server are shown, on standard error.
  bool verbose = false;
};

// Returns the contents of the file `path`, which the value of `flag` names. If
// it cannot be read, fails with a message for the user.
absl::StatusOr<std::string> ReadFile(absl::string_view flag,
                                     const std::string& path);

// Each command writes its results to standard output and errors to standard
// error, and returns the exit code.

// Lists the services, or the methods of `service` if that is not empty.
int List(const Options& options, const std::string& service);
// Prints the definition of a service, method, message or enum.
int Describe(const Options& options, const std::string& symbol);
// Calls a method with JSON, and prints its responses as JSON.
int Call(const Options& options, const std::string& method,
         const CallInput& input);
// Asks for the health of the server, or of `service`. If `watch` is true, also
// prints all changes.
int Health(const Options& options, const std::string& service, bool watch);
// Connects by a first call, then makes `count` calls, one after the other, and
// prints how long each takes. The server answers them with its Health service,
// or with UNIMPLEMENTED if it has none.
int Ping(const Options& options, int count);
// Connects, and prints the channel's servers as a table: at once, and if
// `watch` is true again every second until the program is stopped.
int ShowChannel(const Options& options, bool watch);

}  // namespace verbena::tool

#endif  // VERBENA_TOOLS_VERBENA_COMMANDS_H_
