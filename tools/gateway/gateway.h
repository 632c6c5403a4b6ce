// A gateway for calls in one direction: from gRPC to Verbena, or back.

#ifndef VERBENA_TOOLS_GATEWAY_GATEWAY_H_
#define VERBENA_TOOLS_GATEWAY_GATEWAY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace verbena::gateway {

struct GatewayOptions {
  // Where clients call: "grpc://HOST:PORT" or "verbena://HOST:PORT". Port 0 is
  // any free one.
  std::string from;

  // The server that answers, in the form of `from`, but with the other scheme.
  std::string to;

  // The device of Verbena's side; empty for its default.
  std::string device;

  // The largest message that passes, either way.
  int64_t max_message_bytes = int64_t{65} << 20;

  // Whether calls wait, up to their deadlines, while the server can't be
  // reached. If false, they end with UNAVAILABLE at once. Neither library tells
  // a server of the client's own wait_for_ready.
  bool wait_for_ready = false;
};

// Serves until it is destroyed. While the server behind it cannot be reached,
// calls wait if `wait_for_ready` is set; else they end with UNAVAILABLE.
class Gateway {
 public:
  // Fails with INVALID_ARGUMENT if an address has another form, or if both have
  // the same scheme. If the gateway cannot listen, fails with the error of the
  // library that was to listen.
  static absl::StatusOr<std::unique_ptr<Gateway>> Start(
      const GatewayOptions& options);

  virtual ~Gateway() = default;

  // Where it listens, "10.0.0.7:50051".
  virtual std::string address() const = 0;

  // Takes no more calls, and returns when the open ones have ended. Calls that
  // are still open at `deadline` are cancelled. Call it once at most.
  virtual void Shutdown(absl::Time deadline) = 0;
};

}  // namespace verbena::gateway

#endif  // VERBENA_TOOLS_GATEWAY_GATEWAY_H_
