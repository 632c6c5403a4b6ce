// A relay between a client and a server, to be cut by a test.

#ifndef VERBENA_TESTS_TESTING_TCP_RELAY_H_
#define VERBENA_TESTS_TESTING_TCP_RELAY_H_

#include <atomic>
#include <list>
#include <string>

#include "transport/base/socket_address.h"
#include "transport/base/thread_group.h"
#include "transport/base/unique_fd.h"

namespace verbena::testing_support {

// Listens on a free port of 127.0.0.1, and passes on to a server all that
// comes, and back.
class TcpRelay {
 public:
  enum class Mode {
    kPass,
    kSilent,  // Nothing passes, and nothing ends.
    kRefuse,  // Connections end, the present ones and new ones.
  };

  // `server` is "127.0.0.1:port".
  explicit TcpRelay(const std::string& server);
  ~TcpRelay();

  const std::string& address() const { return address_; }
  int connections() const { return connections_; }
  // Holds for all connections from now on.
  void Set(Mode mode);

 private:
  struct Pair {
    base::UniqueFd client;
    base::UniqueFd server;
  };

  void Run();
  void Accept();

  const base::SocketAddress server_;
  std::string address_;
  base::UniqueFd listener_;
  base::UniqueFd wake_;
  std::atomic<Mode> mode_ = Mode::kPass;
  std::atomic<bool> ends_ = false;
  std::atomic<int> connections_ = 0;  // So far.
  std::list<Pair> pairs_;             // Thread only.
  base::ThreadGroup thread_{"tcp-relay"};
};

}  // namespace verbena::testing_support

#endif  // VERBENA_TESTS_TESTING_TCP_RELAY_H_
