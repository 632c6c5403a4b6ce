// What the program verbena does.

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

// How the program ends. A call that ended with an error is kCallFailed plus the
// number of its status code, so that scripts can tell.
enum ExitCode : int {
  kDone = 0,
  kNotServing = 1,
  kUsage = 2,  // What the user gave is wrong, or nothing is known of it.
  kCallFailed = 64,
};

// What holds for all commands.
struct Options {
  std::shared_ptr<Channel> channel;
  // Of each call. Infinite for none.
  absl::Duration timeout = absl::Seconds(10);
  // Whether the user said so. Else streams whose requests are typed have none.
  bool timeout_given = false;
  // Where the schema is; without files the server is asked.
  std::vector<std::string> proto_files;
  std::vector<std::string> import_dirs = {"."};
  // Sent with the call.
  std::vector<std::pair<std::string, std::string>> metadata;
};

// What a call sends beside its metadata, and where its attachment goes.
struct CallInput {
  // The request as JSON, or requests, one a line; what standard input has if it
  // is "-", and FILE if it is "@FILE".
  std::string data;
  // Files with the attachment of the request, and for that of the response.
  // None if empty. Only unary calls have them.
  std::string attachment;
  std::string response_attachment;
  // Whether the metadata of the server are shown, on standard error.
  bool verbose = false;
};

// What is in the file that the value of `flag` names, for the user to read why
// not.
absl::StatusOr<std::string> ReadFile(absl::string_view flag,
                                     const std::string& path);

// Each writes its results to standard output and what is wrong to standard
// error, and returns the exit code.

// The services; of `service`, if it is not empty, its methods.
int List(const Options& options, const std::string& service);
// The definition of a service, method, message or enum.
int Describe(const Options& options, const std::string& symbol);
// Calls a method with JSON, and prints its responses as JSON.
int Call(const Options& options, const std::string& method,
         const CallInput& input);
// Asks how the server, or a service, is; with `watch` also for all changes.
int Health(const Options& options, const std::string& service, bool watch);
// Calls, one after the other, that the server answers without a handler or with
// its Health service, and how long each takes.
int Ping(const Options& options, int count);

}  // namespace verbena::tool

#endif  // VERBENA_TOOLS_VERBENA_COMMANDS_H_
