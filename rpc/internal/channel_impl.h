// A channel from inside: one connection at most, the calls, and who polls.

#ifndef VERBENA_RPC_INTERNAL_CHANNEL_IMPL_H_
#define VERBENA_RPC_INTERNAL_CHANNEL_IMPL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rpc/buffer.h"
#include "rpc/channel_options.h"
#include "rpc/channel_state.h"
#include "rpc/internal/backoff.h"
#include "rpc/internal/connector.h"
#include "rpc/internal/intrusive_list.h"
#include "rpc/internal/poller_role.h"
#include "rpc/internal/reply_sizes.h"
#include "rpc/internal/shared_buffer_source.h"
#include "rpc/internal/unary_call.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/mpsc_queue.h"
#include "transport/connection/client_connection.h"
#include "transport/connection/poller.h"
#include "transport/connection/poller_task.h"

namespace verbena::internal {

// Whoever waits, polls. Everything that a channel does happens with its role
// held: a thread in a blocking call takes it if it is free, and polls until its
// call is done; if it is not, the thread posts its call to the holder, and
// sleeps until the call is done or the holder leaves. The background thread
// holds the role while asynchronous calls are open and no blocking one is, and
// watches the connection while there are none at all. A third thread exists
// while the channel connects.
//
// The rule that no work is forgotten: who leaves the role looks at the queue of
// posted tasks and at the waiters afterwards; who posts or waits tries the role
// afterwards. See PollerRole.
//
// The role of the connection's own poller belongs to the channel for as long as
// the channel has the connection.
//
// Public methods may be called from any thread. Destroy it after all blocking
// calls have returned; asynchronous ones end with CANCELLED.
class ChannelImpl final : public UnaryCallOwner {
 public:
  ChannelImpl(std::string target, const ChannelOptions& options);
  ChannelImpl(const ChannelImpl&) = delete;
  ChannelImpl& operator=(const ChannelImpl&) = delete;
  // REQUIRES: !InCallback().
  ~ChannelImpl();

  const std::string& target() const { return target_; }
  uint64_t max_send_message_bytes() const {
    return endpoint_options_.max_send_message_bytes;
  }
  ChannelState state(bool try_to_connect);
  std::string device() const;
  bool WaitForConnected(absl::Time deadline);
  Buffer AllocateBuffer(size_t bytes) const { return buffers_.Allocate(bytes); }

  // Whether this thread is in a callback of this channel.
  bool InCallback() const { return role_.HeldByThisThread(); }

  // Makes a prepared call and waits for its end. REQUIRES: !InCallback().
  absl::Status Call(UnaryCall* call);
  // Starts a prepared call with an on_done, which UnaryCall::New() made; takes
  // it over.
  void CallAsync(UnaryCall* call);
  // Has the on_done of such a call that could not be prepared called.
  void FailAsync(UnaryCall* call, absl::Status status);

  // As the owner of calls.
  void PostFromOutside(transport::PollerTask* task) override;
  void StartCall(UnaryCall* call) override;
  void CancelCall(UnaryCall* call) override;
  void CompleteCall(UnaryCall* call) override;
  void LearnReplySize(uint64_t method_id, uint64_t bytes) override;
  absl::Status ExplainFailure(const absl::Status& status) override;

 private:
  using ClientConnection = transport::ClientConnection;
  using Poller = transport::Poller;
  using PollerTask = transport::PollerTask;

  // Runs a method of the channel with the role held.
  class MethodTask final : public PollerTask {
   public:
    MethodTask(ChannelImpl* channel, void (ChannelImpl::*method)())
        : channel_(channel), method_(method) {}
    void Run() override { (channel_->*method_)(); }

   private:
    ChannelImpl* const channel_;
    void (ChannelImpl::*const method_)();
  };

  // Reports a call that never started.
  class FailTask;

  // --- Calls (channel_impl.cc); role held ---
  bool Connected() const {
    return connection_ != nullptr && connection_->usable();
  }
  // Reads the clock only where the transport has not done so just now.
  absl::Time Now();
  void Launch(UnaryCall* call);
  void WaitForConnection(UnaryCall* call);
  void Report(UnaryCall* call);
  int ReportCompleted();

  // --- Connecting (channel_connecting.cc); role held except for OnConnected
  // ---
  void OnConnected(Connector::Result result);  // On the connector's thread.
  void TakeConnectResult();
  void Install(std::unique_ptr<ClientConnection> connection);
  void OnConnectFailed(const absl::Status& status);
  void RequestConnect();
  // RequestConnect(), now or when the pause after a failure is over.
  void ConnectWhenAllowed();
  // For WaitForConnected() and state(true).
  void ConnectIfWanted();
  // Lets go of the connection if it is of no use any more.
  void CheckConnection();
  void RunTimers(absl::Time now);
  void LowerTimer(absl::Time time);
  void SetState(ChannelState state);
  void FailPending(const absl::Status& status, bool also_patient);

  // --- Polling (channel_polling.cc) ---
  // Has `task` run by the holder of the role; returns true if that is now this
  // thread, which must then release it.
  bool Post(PollerTask* task);
  void WakeHolder();
  int RunPosted();  // The rest of these: role held.
  int PollStep();
  // Polls until `call` is finished or there is no connection; returns whether
  // it is finished.
  bool PollFor(UnaryCall* call);
  void SleepWithRole();
  // `armed`: the background thread is about to wait for events.
  void ReleaseRole(bool armed = false);
  bool NeedsBackground() const;

  // Waits until the call is finished (true) or it is worth trying the role:
  // at first awake, for the spin budget, then asleep.
  bool WaitForTurn(UnaryCall* call);
  enum class Spin { kFinished, kTryRole, kSleep };
  Spin SpinForTurn(const UnaryCall::Waiter& waiter) const;
  void FinishWaiter(UnaryCall* call);  // Role held.
  void LeaveWaiters(UnaryCall* call);
  void RemoveWaiter(UnaryCall::Waiter* waiter);  // REQUIRES: mutex_ held too.
  void WakeWaiter();

  // --- The background thread (channel_background.cc) ---
  void NotifyBackground();
  void NotifyBackgroundLocked();  // REQUIRES: mutex_ held.
  void RunBackground();
  // Does what there is to do; returns when to look again, unless notified.
  absl::Time Serve();
  void PollForCallbacks();
  void WaitForEvents();
  void Close();

  const std::string target_;
  transport::EndpointOptions endpoint_options_;
  absl::Status options_error_;  // Constant after construction.

  PollerRole role_;
  base::MpscQueue<PollerTask> posted_;
  // The holder of the role sleeps, or is about to; set before its last look at
  // posted_.
  std::atomic<bool> holder_sleeps_{false};
  std::atomic<int> waiter_count_{0};  // Elements of waiters_.
  SharedBufferSource buffers_;        // Of connection_.

  // Only the holder of the role touches these.
  std::unique_ptr<ClientConnection> connection_;  // Null unless connected.
  IntrusiveList<UnaryCall> pending_;    // Calls that wait for a connection.
  IntrusiveList<UnaryCall> completed_;  // Asynchronous; on_done is still owed.
  int open_async_calls_ = 0;            // Started, and on_done not called.
  uint64_t started_calls_ = 0;
  bool may_report_ = false;    // on_done may be called from where we stand.
  bool in_transport_ = false;  // The connection is below us on the stack.
  bool closing_ = false;
  UnaryCall* polling_for_ = nullptr;  // The holder's own call.
  ReplySizes reply_sizes_;
  Backoff backoff_;
  absl::Status connect_error_;  // Of the last attempt.
  absl::Time retry_time_ =
      absl::InfinitePast();                    // Not before, after a failure.
  absl::Time timer_ = absl::InfiniteFuture();  // When RunTimers() is due.

  mutable std::mutex mutex_;
  // Protected by mutex_; state_ is written with the role held as well.
  ChannelState state_ = ChannelState::kIdle;
  std::string device_;
  std::condition_variable state_changed_;
  int watchers_ = 0;               // Threads in WaitForConnected().
  bool connect_asked_ = false;     // By state(true).
  bool connect_hopeless_ = false;  // The last failure was the target's fault.
  IntrusiveList<UnaryCall::Waiter> waiters_;
  // Where the holder of the role sleeps, or else where the background thread
  // waits for events; never both.
  Poller* sleeping_poller_ = nullptr;
  bool background_waits_ = false;  // sleeping_poller_ is the background's.
  std::condition_variable background_left_;
  bool notified_ = false;          // The background thread has something to do.
  std::atomic<bool> stop_{false};  // Also read without the mutex.
  bool connect_wanted_ = false;
  std::optional<Connector::Result> connect_result_;
  std::vector<std::unique_ptr<ClientConnection>> retired_;  // To be destroyed.
  std::condition_variable background_wake_;
  std::thread background_;  // Started when it is first needed.

  // Only the background thread touches these.
  std::unique_ptr<Connector> connector_;
  // As of its last look with the role held.
  uint64_t seen_calls_ = 0;  // started_calls_.
  bool saw_connection_ = false;

  MethodTask connect_result_task_{this, &ChannelImpl::TakeConnectResult};
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CHANNEL_IMPL_H_
