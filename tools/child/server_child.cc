#include "tools/child/server_child.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "transport/base/status_macros.h"

namespace verbena::tools {
namespace {

constexpr absl::string_view kPrefix = "listening on ";
constexpr absl::string_view kInfix = " via ";
constexpr absl::Duration kPatience = absl::Seconds(2);

// Waits until `fd` can be read. Returns whether it can.
bool WaitReadable(int fd, absl::Duration timeout) {
  pollfd polled = {.fd = fd, .events = POLLIN, .revents = 0};
  const auto timeout_ms = static_cast<int>(
      absl::ToInt64Milliseconds(std::min(timeout, absl::Hours(1))));
  return TEMP_FAILURE_RETRY(poll(&polled, 1, timeout_ms)) > 0;
}

// In the child, after fork(): becomes the program, or exits with code 127.
[[noreturn]] void Become(const std::vector<std::string>& command, int socket,
                         pid_t parent) {
  // The parent may have died before the first line here took effect.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(127);
  dup2(socket, STDIN_FILENO);
  dup2(socket, STDOUT_FILENO);
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace

std::string ListeningLine(absl::string_view address,
                          absl::string_view devices) {
  return absl::StrCat(kPrefix, address, kInfix, devices);
}

absl::StatusOr<std::string> AddressInListeningLine(absl::string_view line) {
  absl::string_view rest = line;
  const bool begins = absl::ConsumePrefix(&rest, kPrefix);
  const size_t infix = rest.find(kInfix);
  if (!begins || infix == 0 || infix == absl::string_view::npos) {
    return absl::InternalError(
        absl::StrCat("the server said \"", line, "\" instead of \"",
                     ListeningLine("ADDRESS", "DEVICES"), "\""));
  }
  return std::string(rest.substr(0, infix));
}

absl::StatusOr<std::unique_ptr<ServerChild>> ServerChild::Start(
    const std::vector<std::string>& command, absl::Duration timeout) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::ErrnoToStatus(errno, "socketpair to the server");
  }
  base::UniqueFd own(ends[0]);
  base::UniqueFd its(ends[1]);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) Become(command, its.get(), parent);
  if (child < 0) return absl::ErrnoToStatus(errno, "fork of the server");
  std::unique_ptr<ServerChild> server(new ServerChild(child, std::move(own)));
  // While this process held the child's end open, read() would not return the
  // end of file after the child's exit.
  its.Reset();
  // Only the first byte needs the timeout, because the server prints the whole
  // line at once.
  if (!WaitReadable(server->socket(), timeout)) {
    return absl::DeadlineExceededError(
        "the server process has not said in time that it listens");
  }
  std::string line;
  for (char next; TEMP_FAILURE_RETRY(read(server->socket(), &next, 1)) == 1;) {
    if (next == '\n') {
      ASSIGN_OR_RETURN(server->address_, AddressInListeningLine(line));
      return server;
    }
    line.push_back(next);
  }
  return absl::UnavailableError(
      "the server process ended before it listened; its own message is above");
}

ServerChild::~ServerChild() {
  kill(pid_, SIGTERM);
  // A pid descriptor becomes readable when the process ends.
  const base::UniqueFd ended(
      static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  if (!ended.valid() || !WaitReadable(ended.get(), kPatience)) {
    kill(pid_, SIGKILL);
  }
  TEMP_FAILURE_RETRY(waitpid(pid_, nullptr, 0));
}

}  // namespace verbena::tools
