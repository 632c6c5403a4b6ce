// One way across between gRPC and Verbena.

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

  // The server that answers, written likewise; of the other kind.
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

// Serves as long as it lives. The server behind it need not be there: calls end
// with UNAVAILABLE until it is, or wait.
class Gateway {
 public:
  // Fails with INVALID_ARGUMENT for addresses of another form, or both of one
  // kind, and as the libraries say if it can't listen.
  static absl::StatusOr<std::unique_ptr<Gateway>> Start(
      const GatewayOptions& options);

  virtual ~Gateway() = default;

  // Where it listens, "10.0.0.7:50051".
  virtual std::string address() const = 0;

  // Takes no more calls, and returns when the open ones have ended; those that
  // have not at `deadline` are cancelled. Once.
  virtual void Shutdown(absl::Time deadline) = 0;
};

}  // namespace verbena::gateway

#endif  // VERBENA_TOOLS_GATEWAY_GATEWAY_H_
