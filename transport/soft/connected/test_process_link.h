// A link between two processes without the connection manager, for tests.

#ifndef VERBENA_TRANSPORT_SOFT_CONNECTED_TEST_PROCESS_LINK_H_
#define VERBENA_TRANSPORT_SOFT_CONNECTED_TEST_PROCESS_LINK_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "transport/soft/test_end.h"

namespace verbena::soft {

// The message that each end sends to the other before they start.
struct TestGreeting {
  uint32_t qp_num;
  uint32_t rkey;
  uint64_t address;
};

// A process's side of the connection between a parent and the child that the
// parent started.
class TestProcessLink {
 public:
  using Child = std::function<int(TestProcessLink&)>;
  using Children = std::map<std::string, Child>;

  // For main(): when this process is a child, runs its function out of
  // `children` and exits with its result. Otherwise returns.
  static void RunIfChild(int argc, char** argv, const Children& children);

  // Starts this program again, as the child of this name: a new program and no
  // mere fork, because the engine's thread does not survive a fork. The child
  // is killed when the thread that started it ends.
  static TestProcessLink Start(const std::string& child);

  TestProcessLink(TestProcessLink&& other) noexcept;
  TestProcessLink& operator=(TestProcessLink&&) = delete;
  // The parent kills a child that still runs.
  ~TestProcessLink();

  // Exchanges greetings, attaches `end` to the link and takes it to RTS.
  // Answers its doorbells from then on, until Disconnect(), which the
  // destructor calls too. `end` outlives that.
  TestGreeting Connect(TestEnd& end);
  void Disconnect();

  // Exchanges greetings without a link, for ends that are connected manually.
  // It is also a meeting point, since both sides wait for each other.
  TestGreeting Exchange(const TestEnd& end);

  // These two are for the parent.
  void Kill();     // SIGKILL, and waits for the end.
  int WaitExit();  // The exit status of the child; -1 if it was killed.

 private:
  TestProcessLink(int socket_fd, pid_t child)
      : socket_fd_(socket_fd), child_(child) {}
  void OnReadable();

  int socket_fd_;
  pid_t child_;  // 0 in the child.
  TestEnd* end_ = nullptr;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CONNECTED_TEST_PROCESS_LINK_H_
