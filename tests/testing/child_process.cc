#include "tests/testing/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace verbena::testing_support {
namespace {

// Longer than anything here takes under a sanitizer in an emulated machine.
constexpr int kPatienceMs = 120'000;

// In the child, which allocates nothing: other threads of the parent may have
// held locks when it forked.
[[noreturn]] void Become(
    char* const* arguments,
    std::initializer_list<std::pair<int, int>> descriptors) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const auto& [from, to] : descriptors) {
    if (from == to) {
      fcntl(to, F_SETFD, 0);  // dup2() would leave it to be closed.
    } else {
      dup2(from, to);
    }
  }
  execv(arguments[0], arguments);
  _exit(127);
}

// Reads once from `fd` into `text`; closes it and sets it to -1 at its end.
void ReadOnce(int& fd, std::string& text) {
  char bytes[4096];
  const ssize_t length = read(fd, bytes, sizeof(bytes));
  if (length > 0) {
    text.append(bytes, static_cast<size_t>(length));
  } else if (length == 0 || errno != EINTR) {
    close(fd);
    fd = -1;
  }
}

}  // namespace

pid_t Spawn(const std::vector<std::string>& command,
            std::initializer_list<std::pair<int, int>> descriptors) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) Become(arguments.data(), descriptors);
  EXPECT_GT(pid, 0) << "errno " << errno;
  return pid;
}

ChildProcess::ChildProcess(const std::vector<std::string>& command, int input) {
  int output[2];
  int errors[2];
  EXPECT_EQ(pipe2(output, O_CLOEXEC), 0);
  EXPECT_EQ(pipe2(errors, O_CLOEXEC), 0);
  pid_ = Spawn(command, {{input, STDIN_FILENO},
                         {output[1], STDOUT_FILENO},
                         {errors[1], STDERR_FILENO}});
  close(output[1]);
  close(errors[1]);
  output_fd_ = output[0];
  errors_fd_ = errors[0];
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) Kill();
  if (output_fd_ >= 0) close(output_fd_);
  if (errors_fd_ >= 0) close(errors_fd_);
}

void ChildProcess::Signal(int signal) { EXPECT_EQ(kill(pid_, signal), 0); }

void ChildProcess::Stop() {
  Signal(SIGSTOP);
  // On another processor it runs on for a moment.
  int status = 0;
  EXPECT_EQ(waitpid(pid_, &status, WUNTRACED), pid_);
  EXPECT_TRUE(WIFSTOPPED(status));
}

void ChildProcess::Kill() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

bool ChildProcess::ReadSome() {
  if (output_fd_ < 0 && errors_fd_ < 0) return false;
  pollfd polled[] = {{.fd = output_fd_, .events = POLLIN, .revents = 0},
                     {.fd = errors_fd_, .events = POLLIN, .revents = 0}};
  const int ready = poll(polled, 2, kPatienceMs);
  if (ready == 0) {
    ADD_FAILURE() << "process " << pid_ << " is silent; it said\n"
                  << output_ << errors_;
    if (pid_ > 0) kill(pid_, SIGKILL);
    return false;
  }
  if (polled[0].revents != 0) ReadOnce(output_fd_, output_);
  if (polled[1].revents != 0) ReadOnce(errors_fd_, errors_);
  return true;
}

std::string ChildProcess::ReadLine() {
  while (output_.find('\n') == std::string::npos && output_fd_ >= 0 &&
         ReadSome()) {
  }
  const size_t end = output_.find('\n');
  std::string line = output_.substr(0, end);
  output_.erase(0, end == std::string::npos ? end : end + 1);
  return line;
}

void ChildProcess::WaitForEndOfOutput() {
  while (ReadSome()) {
  }
}

int ChildProcess::Wait() {
  WaitForEndOfOutput();
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

Ran RunToEnd(const std::vector<std::string>& command) {
  ChildProcess process(command);
  Ran ran;
  ran.exit_code = process.Wait();
  ran.output = process.output();
  ran.errors = process.errors();
  return ran;
}

std::string TestAddress() {
  const char* address = std::getenv("VERBENA_TEST_ADDRESS");
  return address == nullptr ? "127.0.0.1" : address;
}

std::string WordAfter(const std::string& before, const std::string& text) {
  const size_t start = text.find(before);
  if (start == std::string::npos) return "";
  const size_t word = start + before.size();
  return text.substr(word, text.find(' ', word) - word);
}

}  // namespace verbena::testing_support
