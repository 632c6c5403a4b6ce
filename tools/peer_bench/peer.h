// A system that is compared with others. Each has its own class Peer, which
// serves echoes and calls them. All systems share the code for options, load
// and results.

#ifndef VERBENA_TOOLS_PEER_BENCH_PEER_H_
#define VERBENA_TOOLS_PEER_BENCH_PEER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/load/callers.h"

namespace verbena::peers {

using bench::BlockingCall;

// Callers 0 to callers - 1; caller i calls on channel i % channels.
struct CallersOptions {
  int callers = 1;
  int channels = 1;
  // The kind of call. "unary": a call. "bidi": a message there and one back, in
  // a stream that the caller keeps. "server": a message that the caller reads
  // from such a stream.
  std::string kind = "unary";
  std::string payload;
};

class Peer {
 public:
  virtual ~Peer() = default;

  // Returns the names of its kinds of server. The first is the default.
  virtual std::vector<std::string> servers() const = 0;

  // Returns the kinds of calls that the server of that kind answers.
  virtual std::vector<std::string> kinds(const std::string& /*server*/) const {
    return {"unary"};
  }

  // Returns the largest payload that its calls may have, in bytes.
  virtual size_t largest_payload() const { return size_t{1} << 20; }

  // Starts a server of the kind `server`, which serves until the process ends.
  // Returns the address for Connect().
  virtual absl::StatusOr<std::string> Serve(const std::string& server,
                                            const std::string& address) = 0;

  // Returns the callers. Each is used by one thread at a time, and does not
  // outlive the peer. Its first call may connect.
  virtual absl::StatusOr<std::vector<BlockingCall>> Connect(
      const std::string& address, const CallersOptions& options) = 0;
};

// The main() of a peer's program: starts a server in a child, loads it, and
// prints one object of JSON. Returns the status of the process.
int RunPeer(int argc, char** argv, Peer& peer);

}  // namespace verbena::peers

#endif  // VERBENA_TOOLS_PEER_BENCH_PEER_H_
