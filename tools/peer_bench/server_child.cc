#include "tools/peer_bench/server_child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tools/peer_bench/usage.h"

namespace verbena::peers {
namespace {

// In the child, after fork(): becomes this program anew, or ends.
[[noreturn]] void Become(char** argv, std::string flag, pid_t parent) {
  // The parent may have died before the first line here took effect.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(127);
  std::vector<char*> arguments;
  for (char** argument = argv; *argument != nullptr; ++argument) {
    arguments.push_back(*argument);
  }
  arguments.push_back(flag.data());
  arguments.push_back(nullptr);
  execv("/proc/self/exe", arguments.data());
  _exit(127);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerChild>> ServerChild::Start(
    char** argv, absl::string_view flag) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::ErrnoToStatus(errno, "socketpair to the server");
  }
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    fcntl(ends[1], F_SETFD, 0);  // It outlives the exec.
    Become(argv, absl::StrCat(flag, ends[1]), parent);
  }
  const int fork_errno = errno;
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return absl::ErrnoToStatus(fork_errno, "fork of the server");
  }
  std::unique_ptr<ServerChild> server(new ServerChild(child, ends[0]));
  std::array<char, 256> address;
  const ssize_t length = TEMP_FAILURE_RETRY(
      recv(server->control_, address.data(), address.size(), 0));
  if (length <= 0) {
    return absl::UnavailableError(
        "the server ended before it served; its own message is above");
  }
  server->address_.assign(address.data(), static_cast<size_t>(length));
  return server;
}

ServerChild::~ServerChild() {
  close(control_);
  TEMP_FAILURE_RETRY(waitpid(pid_, nullptr, 0));
}

absl::StatusOr<Usage> ServerChild::usage() {
  Usage usage;
  if (send(control_, "?", 1, MSG_NOSIGNAL) != 1 ||
      TEMP_FAILURE_RETRY(recv(control_, &usage, sizeof(usage), 0)) !=
          static_cast<ssize_t>(sizeof(usage))) {
    return absl::UnavailableError(
        "the server ended during the run; its own message is above");
  }
  return usage;
}

void AnswerClient(int control, const std::string& address) {
  bool heard = send(control, address.data(), address.size(), MSG_NOSIGNAL) > 0;
  while (heard) {
    char question = 0;
    if (TEMP_FAILURE_RETRY(recv(control, &question, 1, 0)) != 1) return;
    const Usage usage = OwnUsage();
    heard = send(control, &usage, sizeof(usage), MSG_NOSIGNAL) > 0;
  }
}

}  // namespace verbena::peers
