#include "tools/child/server_child.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "transport/base/status_macros.h"

namespace verbena::tools {
namespace {

constexpr absl::string_view kPrefix = "listening on ";
constexpr absl::string_view kInfix = " via ";
constexpr absl::Duration kPatience = absl::Seconds(2);

}  // namespace

std::string ListeningLine(absl::string_view address,
                          absl::string_view devices) {
  return absl::StrCat(kPrefix, address, kInfix, devices);
}

absl::StatusOr<std::string> AddressInListeningLine(absl::string_view line) {
  absl::string_view rest = line;
  const bool begins = absl::ConsumePrefix(&rest, kPrefix);
  const size_t infix = rest.find(kInfix);
  // An empty address would be one that nobody can call.
  if (!begins || infix == 0 || infix == absl::string_view::npos) {
    return absl::InternalError(
        absl::StrCat("the server said \"", line, "\" instead of \"",
                     ListeningLine("ADDRESS", "DEVICES"), "\""));
  }
  return std::string(rest.substr(0, infix));
}

// Waits for the line that ListeningLine() gives, because only then clients can
// connect.
absl::StatusOr<std::unique_ptr<ServerChild>> ServerChild::Start(
    const std::vector<std::string>& command, absl::Duration timeout) {
  // If anything fails below, the destructor of `server` ends the process.
  std::unique_ptr<ServerChild> server(new ServerChild(command));
  const std::string line = server->process_.ReadLine(timeout);
  if (server->process_.timed_out()) {
    return absl::DeadlineExceededError(
        "the server process did not report in time that it is listening");
  }
  // The output has ended without a line.
  if (line.empty()) {
    return absl::UnavailableError(
        absl::StrCat("the server process ended before it was listening; its "
                     "own message is above",
                     server->process_.errors()));
  }
  ASSIGN_OR_RETURN(server->address_, AddressInListeningLine(line));
  return server;
}

ServerChild::~ServerChild() { process_.Terminate(kPatience); }

}  // namespace verbena::tools
