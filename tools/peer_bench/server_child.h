// The server of a peer: the same program once more, as a child that tells what
// it has cost.

#ifndef VERBENA_TOOLS_PEER_BENCH_SERVER_CHILD_H_
#define VERBENA_TOOLS_PEER_BENCH_SERVER_CHILD_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/peer_bench/usage.h"

namespace verbena::peers {

// In the client's process.
class ServerChild {
 public:
  // Runs this program with its own arguments and one more at the end,
  // `flag`DESCRIPTOR, and waits until it says where it serves. Call it before
  // any thread is started; the kernel kills the child when this process ends.
  static absl::StatusOr<std::unique_ptr<ServerChild>> Start(
      char** argv, absl::string_view flag);

  ServerChild(const ServerChild&) = delete;
  ServerChild& operator=(const ServerChild&) = delete;
  // Ends the child and waits for its end.
  ~ServerChild();

  // Where it serves.
  const std::string& address() const { return address_; }

  // What the child has cost so far. Fails if it is gone.
  absl::StatusOr<Usage> usage();

 private:
  ServerChild(pid_t pid, int control) : pid_(pid), control_(control) {}

  const pid_t pid_;
  const int control_;  // A socket; the child ends when it is closed.
  std::string address_;
};

// In the child: says that it serves at `address`, then what it has cost
// whenever it is asked, until the client's process is gone.
void AnswerClient(int control, const std::string& address);

}  // namespace verbena::peers

#endif  // VERBENA_TOOLS_PEER_BENCH_SERVER_CHILD_H_
