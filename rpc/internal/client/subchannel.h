// What is connected: one address, and at most one connection to it.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_SUBCHANNEL_H_
#define VERBENA_RPC_INTERNAL_CLIENT_SUBCHANNEL_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/buffer.h"
#include "rpc/channel_options.h"
#include "rpc/channel_state.h"
#include "rpc/internal/client/backoff.h"
#include "rpc/internal/client/connector.h"
#include "rpc/internal/client/polling_role.h"
#include "rpc/internal/client/shared_buffer_source.h"
#include "rpc/internal/client/shared_poller.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/mutex.h"
#include "transport/connection/client_connection.h"
#include "transport/connection/poller_task.h"

namespace verbena::internal {

// Connects when it is told to, spaces attempts that fail by a growing pause,
// and lets go of a connection that is of no use any more. It knows nothing of
// calls: who wants to make one asks for connection(), and if that is not usable
// for why_not() and for an attempt.
//
// An attempt blocks, so it has a thread of its own while it lasts. Its result
// comes back as a task that runs with the polling role held.
//
// Functions are for any thread, unless they stand under a line that says
// otherwise.
class Subchannel {
 public:
  using ClientConnection = transport::ClientConnection;

  // `endpoint` is an error if the options are not valid: then there is never an
  // attempt. `poller` drives the connection. `attempt_ended` is posted there
  // when an attempt has ended, and calls TakeResult(). Both outlive this.
  Subchannel(std::string target, const ChannelOptions& options,
             const absl::StatusOr<transport::EndpointOptions>& endpoint,
             SharedPoller* poller, transport::PollerTask* attempt_ended);
  Subchannel(const Subchannel&) = delete;
  Subchannel& operator=(const Subchannel&) = delete;
  // REQUIRES: CloseConnection() was called if anything was ever connected.
  ~Subchannel() = default;

  const std::string& target() const { return target_; }

  // `try_to_connect` makes an idle subchannel connect, on the background
  // thread.
  ChannelState state(bool try_to_connect);
  std::string device() const;
  // See Channel::WaitForConnected().
  bool WaitForConnected(absl::Time deadline);
  Buffer AllocateBuffer(size_t bytes) const { return buffers_.Allocate(bytes); }

  // --- With the polling role held ---

  // Null unless connected. Calls may be started only if it is usable().
  ClientConnection* connection() const {
    role_.AssertHeld();
    return connection_.get();
  }

  // Why a call can't wait for a connection; OK if it may. A patient call waits
  // although an attempt has failed.
  absl::Status WhyNot(bool patient) const;

  // Begins an attempt, now or when the pause after a failure is over (for which
  // it uses SharedPoller::LowerTimer()). Does nothing if there is a connection,
  // or an attempt is under way.
  void Connect();
  // Connect(), if other threads have asked for it.
  void ConnectIfAsked();
  // Whether a thread waits for a connection without making a call.
  bool IsWaitedFor() const;

  // Takes over what came of an attempt. If it failed, the error is for calls
  // that do not wait any longer: UNAVAILABLE unless another attempt can't go
  // otherwise.
  absl::Status TakeResult();
  // Why the last attempt failed.
  const absl::Status& connect_error() const {
    role_.AssertHeld();
    return connect_error_;
  }

  // Lets go of the connection if it is failed or drained, and not below us on
  // the stack. Returns whether it did.
  bool DropUnusable();

  // From now on WhyNot() is `status`, and there are no attempts.
  void Refuse(absl::Status status);

  // Destroys the connection, and so fails its calls. After Refuse() and
  // FinishAttempt().
  void CloseConnection();

  // --- On the background thread, without the role ---

  // What may block: destroys old connections, starts attempts.
  void RunBlocking();
  // Waits until the attempt that is under way has ended, and its task has run
  // or is posted.
  void FinishAttempt() { connector_.reset(); }

 private:
  void SetState(ChannelState state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
  void OnAttemptEnded(Connector::Result result);  // On the attempt's thread.
  void Install(std::unique_ptr<ClientConnection> connection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
  void OnFailed(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);

  const std::string target_;
  const transport::EndpointOptions options_;
  SharedPoller& poller_;
  PollingRole& role_;  // The poller's.
  transport::PollerTask* const attempt_ended_;
  SharedBufferSource buffers_;  // The memory of connection_.

  std::unique_ptr<ClientConnection> connection_ ABSL_GUARDED_BY(role_);
  Backoff backoff_ ABSL_GUARDED_BY(role_);
  absl::Status connect_error_ ABSL_GUARDED_BY(role_);
  // After a failure there is no attempt before this time.
  absl::Time retry_time_ ABSL_GUARDED_BY(role_) = absl::InfinitePast();

  mutable base::Mutex mutex_;
  base::CondVar state_changed_;
  // Written with the role held as well, so its holder needs no lock to read it.
  ChannelState state_ = ChannelState::kIdle;
  // Why there will be no attempts; OK if there may be some. Written like
  // state_.
  absl::Status refusal_;
  std::string device_ ABSL_GUARDED_BY(mutex_);
  // The last failure was the target's or the options' fault.
  bool hopeless_ ABSL_GUARDED_BY(mutex_) = false;
  int watchers_ ABSL_GUARDED_BY(mutex_) = 0;  // Threads in WaitForConnected().
  bool asked_ ABSL_GUARDED_BY(mutex_) = false;  // By state(true).
  // An attempt is to be started by RunBlocking().
  bool attempt_due_ ABSL_GUARDED_BY(mutex_) = false;
  // What came of the attempt, until TakeResult().
  std::optional<Connector::Result> result_ ABSL_GUARDED_BY(mutex_);
  // Connections of no use any more. To destroy one takes a while, and needs the
  // transport's role.
  std::vector<std::unique_ptr<ClientConnection>> old_ ABSL_GUARDED_BY(mutex_);

  // Made by the first attempt; confined to the background thread.
  std::unique_ptr<Connector> connector_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_SUBCHANNEL_H_
