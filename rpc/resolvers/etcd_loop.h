// The thread on which everything with etcd happens, and gRPC as calls of bytes:
// only etcd_loop.cc includes gRPC's headers.

#ifndef VERBENA_RPC_RESOLVERS_ETCD_LOOP_H_
#define VERBENA_RPC_RESOLVERS_ETCD_LOOP_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/resolvers/etcd_options.h"

namespace verbena::internal {

// A timer or a call under way. The destructor ends it: its functions are not
// called afterwards. May be destroyed inside of them. Loop thread only.
class EtcdPending {
 public:
  virtual ~EtcdPending() = default;
};

// Calls to one end point. Loop thread only.
class EtcdConnection {
 public:
  using OnReply = std::function<void(absl::StatusOr<std::string>)>;
  using OnMessage = std::function<void(const std::string&)>;
  using OnEnd = std::function<void(const absl::Status&)>;

  virtual ~EtcdConnection() = default;

  // Sends `token` with the calls that start after this.
  virtual void set_token(std::string token) = 0;

  // Makes a call, and passes its reply on. `method` is "/service/method".
  [[nodiscard]] virtual std::unique_ptr<EtcdPending> Call(
      const char* method, const std::string& request, absl::Duration timeout,
      OnReply on_reply) = 0;

  // Makes a call that sends one message and gets many. Ends with an error if
  // the end point is cut off from the other members.
  [[nodiscard]] virtual std::unique_ptr<EtcdPending> Stream(
      const char* method, const std::string& request, OnMessage on_message,
      OnEnd on_end) = 0;
};

// Runs tasks, timers and calls one at a time. Not to be destroyed on its own
// thread. The destructor ends all calls, and does not wait for the network.
class EtcdLoop {
 public:
  // Returns the loop that the process shares, and starts it if there is none.
  // UNAVAILABLE if the system has no thread. Thread-safe.
  static absl::StatusOr<std::shared_ptr<EtcdLoop>> OfProcess();

  virtual ~EtcdLoop() = default;

  // Runs `task` on the thread, in the order of the calls. Thread-safe.
  virtual void Post(absl::AnyInvocable<void()> task) = 0;

  // Loop thread only: runs `task` at `time`, by base::Now(). If that has
  // passed, it runs when nothing that has arrived is left to process.
  [[nodiscard]] virtual std::unique_ptr<EtcdPending> At(
      absl::Time time, absl::AnyInvocable<void()> task) = 0;

  // Loop thread only: connects when the first call starts. The connection must
  // not outlive the loop.
  virtual std::unique_ptr<EtcdConnection> Connect(
      const std::string& end_point, const std::optional<EtcdTls>& tls) = 0;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_RESOLVERS_ETCD_LOOP_H_
