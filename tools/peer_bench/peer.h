// One system among those that are compared: how it serves an echo, and how it
// calls it. Everything else, options, load and figures, is the same for all.

#ifndef VERBENA_TOOLS_PEER_BENCH_PEER_H_
#define VERBENA_TOOLS_PEER_BENCH_PEER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/peer_bench/load.h"

namespace verbena::peers {

// In bytes: what one packet of a Unix socket holds.
constexpr size_t kLargestPayload = size_t{128} << 10;

// Callers 0 to callers - 1; caller i calls on channel i % channels.
struct CallersOptions {
  int callers = 1;
  int channels = 1;
  // What an Echo is: "unary", a call; "bidi", a message there and one back in a
  // stream that the caller keeps; "server", a message that it reads of one.
  std::string kind = "unary";
  std::string payload;
};

// What a caller thinks of the reply to its request. Both are EchoMessages, a
// class of each program's own.
template <typename Message>
absl::Status CheckEcho(const Message& request, const Message& reply) {
  if (reply.payload().size() == request.payload().size()) {
    return absl::OkStatus();
  }
  return absl::DataLossError("the reply is not as long as the request");
}

class Peer {
 public:
  virtual ~Peer() = default;

  // The names of its kinds of server; the first is the default.
  virtual std::vector<std::string> servers() const = 0;

  // The kinds of echo that such a server answers.
  virtual std::vector<std::string> kinds(const std::string& /*server*/) const {
    return {"unary"};
  }

  // Serves from now on, until the process ends, by the kind of server that is
  // called `server`. Returns the address for Connect().
  virtual absl::StatusOr<std::string> Serve(const std::string& server,
                                            const std::string& address) = 0;

  // The callers. Each is used by one thread at a time and does not outlive the
  // peer; its first call may be what connects.
  virtual absl::StatusOr<std::vector<Echo>> Connect(
      const std::string& address, const CallersOptions& options) = 0;
};

// The main() of a peer's program: starts a server in a child, loads it, and
// prints one object of JSON. Returns the status of the process.
int RunPeer(int argc, char** argv, Peer& peer);

}  // namespace verbena::peers

#endif  // VERBENA_TOOLS_PEER_BENCH_PEER_H_
