#include "tools/child/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace verbena::tools {
namespace {

// As shells report a command that they cannot find.
constexpr int kCannotStart = 127;

// In the child, which allocates nothing: other threads of the parent may have
// held locks when it forked.
[[noreturn]] void Become(
    pid_t parent, char* const* arguments,
    std::initializer_list<std::pair<int, int>> descriptors) {
  // The parent may have died before the first call took effect.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
    _exit(kCannotStart);
  }
  for (const auto& [from, to] : descriptors) {
    if (from == to) {
      fcntl(to, F_SETFD, 0);  // dup2() would leave it to be closed.
    } else {
      dup2(from, to);
    }
  }
  execvp(arguments[0], arguments);
  _exit(kCannotStart);
}

// Reads once from `fd` into `text`, and closes `fd` at its end.
void ReadOnce(base::UniqueFd& fd, std::string& text) {
  char bytes[4096];
  const ssize_t length = read(fd.get(), bytes, sizeof(bytes));
  if (length > 0) {
    text.append(bytes, static_cast<size_t>(length));
  } else if (length == 0 || errno != EINTR) {
    fd.Reset();
  }
}

}  // namespace

// Builds the arguments before fork(), because the child allocates nothing.
pid_t Spawn(const std::vector<std::string>& command,
            std::initializer_list<std::pair<int, int>> descriptors) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) Become(parent, arguments.data(), descriptors);
  return pid;
}

// Makes a socket for input and pipes for outputs, starts the program with their
// far ends, and closes those here.
ChildProcess::ChildProcess(const std::vector<std::string>& command,
                           Errors errors) {
  // A write to a socket can fail without a signal.
  int input[2] = {-1, -1};
  int output[2] = {-1, -1};
  int kept[2] = {-1, -1};
  const bool opened =
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input) == 0 &&
      pipe2(output, O_CLOEXEC) == 0 && pipe2(kept, O_CLOEXEC) == 0;
  input_ = base::UniqueFd(input[0]);
  output_fd_ = base::UniqueFd(output[0]);
  errors_fd_ = base::UniqueFd(kept[0]);
  // While this process held the child's ends open, outputs would not end with
  // the child.
  const base::UniqueFd its_input(input[1]);
  const base::UniqueFd its_output(output[1]);
  const base::UniqueFd its_errors(kept[1]);
  if (opened) {
    pid_ = Spawn(command,
                 {{its_input.get(), STDIN_FILENO},
                  {its_output.get(), STDOUT_FILENO},
                  {errors == Errors::kKept ? its_errors.get() : STDERR_FILENO,
                   STDERR_FILENO}});
  }
  if (pid_ < 0) {
    errors_ = absl::StrCat("cannot start a process: ", std::strerror(errno));
  }
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) Kill();
}

// A socket takes part of a long text at a time. MSG_NOSIGNAL turns SIGPIPE into
// an error.
bool ChildProcess::Write(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written =
        send(input_.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

void ChildProcess::Signal(int signal) {
  if (pid_ > 0) kill(pid_, signal);
}

void ChildProcess::Stop() {
  Signal(SIGSTOP);
  // On another processor it runs on for a moment.
  TEMP_FAILURE_RETRY(waitpid(pid_, nullptr, WUNTRACED));
}

void ChildProcess::Kill() {
  Signal(SIGKILL);
  TEMP_FAILURE_RETRY(waitpid(std::exchange(pid_, -1), nullptr, 0));
}

// Kill() comes in any case, because it also collects a child that has ended by
// itself.
void ChildProcess::Terminate(absl::Duration patience) {
  Signal(SIGTERM);
  WaitForEndOfOutput(patience);
  Kill();
}

// Waits for both outputs at once, because a child stops when it fills one that
// nobody reads.
bool ChildProcess::ReadSome(absl::Duration patience) {
  if (!output_fd_.valid() && !errors_fd_.valid()) return false;
  pollfd polled[] = {{.fd = output_fd_.get(), .events = POLLIN, .revents = 0},
                     {.fd = errors_fd_.get(), .events = POLLIN, .revents = 0}};
  const int64_t patience_ms = absl::ToInt64Milliseconds(patience);
  // poll() ignores the descriptor -1, which an output has after its end.
  const int ready = TEMP_FAILURE_RETRY(poll(
      polled, 2, static_cast<int>(std::min<int64_t>(patience_ms, INT_MAX))));
  if (ready == 0) {
    timed_out_ = true;
    absl::StrAppend(&errors_, "printed nothing for ",
                    absl::FormatDuration(patience), ", so it was killed\n");
    Signal(SIGKILL);
    return false;
  }
  // Any event leads to read(), which also tells of an end or an error.
  if (polled[0].revents != 0) ReadOnce(output_fd_, output_);
  if (polled[1].revents != 0) ReadOnce(errors_fd_, errors_);
  return true;
}

// Reads until there is a whole line, and keeps what comes behind it.
std::string ChildProcess::ReadLine(absl::Duration patience) {
  while (output_.find('\n') == std::string::npos && output_fd_.valid() &&
         ReadSome(patience)) {
  }
  const size_t end = output_.find('\n');
  std::string line = output_.substr(0, end);
  output_.erase(0, end == std::string::npos ? end : end + 1);
  return line;
}

bool ChildProcess::WaitForEndOfOutput(absl::Duration patience) {
  while (ReadSome(patience)) {
  }
  return !timed_out_;
}

int ChildProcess::Wait() {
  // A child that reads its input to the end must see that end. Outputs are read
  // before waitpid(), because a child whose pipe is full does not end.
  CloseInput();
  WaitForEndOfOutput();
  if (pid_ < 0) return kCannotStart;
  int status = 0;
  TEMP_FAILURE_RETRY(waitpid(std::exchange(pid_, -1), &status, 0));
  if (timed_out_) return kTimedOut;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

Ran RunToEnd(const std::vector<std::string>& command, absl::string_view input) {
  ChildProcess process(command);
  process.Write(input);
  Ran ran;
  ran.exit_code = process.Wait();
  ran.output = process.output();
  ran.errors = process.errors();
  return ran;
}

}  // namespace verbena::tools
