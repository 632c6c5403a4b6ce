// The common base of a client's calls of every kind.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_OPEN_CALL_H_
#define VERBENA_RPC_INTERNAL_CLIENT_OPEN_CALL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rpc/client_context.h"
#include "rpc/internal/call/client_call_state.h"
#include "rpc/internal/client/hedging.h"
#include "rpc/internal/client/interception.h"
#include "rpc/internal/client/picked_server.h"
#include "rpc/internal/client/retries.h"
#include "rpc/internal/client/waiters.h"
#include "rpc/internal/metrics/channel_methods.h"
#include "rpc/internal/metrics/method_counters.h"
#include "rpc/internal/service/service_config.h"
#include "rpc/stream.h"
#include "transport/base/intrusive_list.h"
#include "transport/client/client_call.h"
#include "transport/client/client_connection.h"
#include "transport/polling/poller_threads.h"

namespace verbena::internal {

class OpenCalls;

// A user's call, and also its attempts on connections, one after the other: the
// functions of transport::ClientCall are the attempt's. There is another
// attempt if no server has processed the one before, or by its retry policy.
//
// Between its start and its report, everything but Cancel() happens with the
// poller's ownership held. The context and the name must outlive the call.
class OpenCall : public transport::ClientCall,
                 public transport::ShortTask,
                 public base::ListLink<OpenCall>,
                 public CancellableCall {
 public:
  OpenCall(const OpenCall&) = delete;
  OpenCall& operator=(const OpenCall&) = delete;

  // Takes the context into use; if another call has it, OpenContext() says so.
  // On a thread of the caller's, as all functions but those for OpenCalls.
  void ReserveContext() { has_context_ = state().Reserve(); }
  void ReleaseContext() {
    if (std::exchange(has_context_, false)) state().Release();
  }

  // Ends a call that the transport does not have (any more).
  void Fail(const absl::Status& status);

  // As Task: see OpenCalls::RunPosted().
  void Run() override;

  // As CancellableCall, from any thread.
  void Cancel() override;

  // As the transport's call.
  void OnUnsent(const absl::Status& why) override;
  void OnFailed(const absl::Status& status) override;
  absl::Status OnInitialMetadata(absl::Span<const uint8_t> metadata) override;

  ClientCallState& state() const { return ClientCallState::Of(*context_); }
  absl::Time deadline() const { return request_.deadline; }
  const char* method_name() const { return method_name_; }
  // Returns the status with which the call ended. To be called once.
  absl::Status TakeStatus() { return std::move(status_); }

  // --- For OpenCalls ---

  // Says how long a reply the channel expects, unless the user said so.
  void SetReplyHint(uint64_t bytes) {
    const uint64_t users_hint = state().options().reply_size_hint;
    request_.reply_hint_bytes = users_hint > 0 ? users_hint : bytes;
  }

  // Says whether the server is to be told the method's name.
  void SetSendsName(bool sends) {
    if (ABSL_PREDICT_FALSE(sends != sends_name_)) ChangeSendsName();
  }

  // Called when the call has its status and no thread waits for it: tells its
  // callback, reactor or stream.
  virtual void Report() = 0;

  // Called when the call begins; counts it with `methods`.
  void NoteStart(ChannelMethods* methods) {
    counters_ = &methods->Find(request_.method_id, method_name_, streams_);
    counters_->NoteStart(request_.message_bytes + request_.attachment.size());
  }

  // The service config has this for the call. `by` is part of `config`. Returns
  // false if that has ended the call.
  bool Configure(const std::shared_ptr<const ServiceConfig>& config,
                 const MethodConfig& by, absl::Time now);
  bool configured = false;
  bool streams() const { return streams_; }
  // Whether it waits for a connection.
  bool patient() const {
    return state().options().wait_for_ready.value_or(waits_by_config_);
  }
  // Makes it ready for an attempt by its retry policy. Returns false if that
  // has ended it.
  bool BeginRetry();
  // Null unless it has a policy of the kind.
  std::unique_ptr<RetryState> retry;
  std::unique_ptr<Hedge> hedge;
  Retries::Wake wake = {absl::InfinitePast(), 0};  // See Retries::WakeAt().

  enum class Stage : uint8_t {
    kNew,       // Not started yet; maybe it is posted.
    kRefused,   // It could not be prepared, and this is to be reported.
    kWaiting,   // Waits for a connection.
    kLaunched,  // The transport has it.
    kUnsent,    // The transport has given it back; it is posted.
    kPaused,    // An attempt has failed; Retries has it.
    kEnded,     // The call has its status.
    kReported,  // Posted to the background thread, to be reported.
  };
  Stage stage = Stage::kNew;

  // Whether the call goes on although no thread waits for it, so that somebody
  // must poll. It then counts as pending (SharedPoller::AddPending()).
  bool in_background = false;

  // The connection that has the call, once it is launched.
  transport::ClientConnection* connection = nullptr;
  // The attempt that `connection` has.
  PickedServer::Attempt attempt;

  // How the thread of a blocking unary call hears of its end; else null.
  Waiter* waiter = nullptr;

 protected:
  // `has_context`: the context is reserved for this call already.
  OpenCall(OpenCalls* calls, const char* method_name, uint64_t method_id,
           ClientContext* context, bool has_context, bool streams)
      : context_(context),
        has_context_(has_context),
        streams_(streams),
        calls_(calls),
        method_name_(method_name),
        begun_(BeginTiming(calls)) {
    request_.method_id = method_id;
  }
  ~OpenCall() = default;

  // Makes the call's interceptors, before the call is prepared. Returns false
  // if one is against the call: then that is over and has its status. On the
  // caller's thread. REQUIRES: has_context(), and the channel has factories.
  bool StartInterception(RpcType type);
  // Null if the call has no interceptors.
  ClientInterception* interception() const { return interception_.get(); }

  // Measures the metadata and opens the context. Returns whether that worked.
  // If it did not (also because another call has the context), the call is over
  // and has its status.
  bool OpenContext();
  bool has_context() const { return has_context_; }
  // Checks the length of a response against the service config. Returns false
  // if that has ended the call.
  bool CheckResponse(uint64_t bytes) {
    return ABSL_PREDICT_TRUE(bytes <= max_response_bytes_) ||
           RefuseResponse(bytes);
  }
  // As OpenContext(), if another call has the context. Returns false.
  bool ContextInUse();
  // As OpenContext(), if something else keeps the call from being made. Returns
  // false. REQUIRES: has_context().
  bool NotOpened(const absl::Status& status);

  // Writes the head of the REQUEST, which stands before the message: the
  // method's name if the server wants it, and the metadata. Nothing if the head
  // is so long that it goes before the REQUEST. Returns the end of it.
  uint8_t* WriteHead(uint8_t* out) const {
    return ABSL_PREDICT_TRUE(request_.metadata_bytes == 0)
               ? out
               : WriteNameAndMetadata(out, out + request_.metadata_bytes);
  }

  // Whether a call that a server has refused before it did anything may be sent
  // once more. Returns true once: a server that always refuses would be asked
  // for ever.
  bool MayTryAgain() { return !std::exchange(refused_, true); }
  // Takes metadata and status of the response, unless there are none and it is
  // OK, as mostly. Returns false if that has ended the call with an error.
  bool TakeTrailer(const transport::CallResponse& response) {
    return ABSL_PREDICT_TRUE(response.metadata.empty() &&
                             response.code == absl::StatusCode::kOk) ||
           TakeTrailerSlow(response);
  }
  bool TakeTrailerSlow(const transport::CallResponse& response);
  // Puts the method's name before the message.
  absl::Status Explain(const absl::Status& status) const;
  // Changes the status of a call that has ended.
  void KeepStatus(absl::Status status) { status_ = std::move(status); }
  // The call has its status: reports it.
  void End();
  // The call has ended, and nothing of it is open: completes it, unless its
  // cancellation stands in a queue, which does so then.
  void CompleteUnlessPosted();
  // Null if calls of this kind are not hedged.
  virtual Hedge::Owner* hedge_owner() { return nullptr; }

  OpenCalls& calls() const { return *calls_; }
  // Null unless it has begun.
  MethodCounters* counters() const { return counters_; }

 private:
  // A second task, because the call itself may still stand in a queue.
  class CancelTask final : public transport::Task {
   public:
    explicit CancelTask(OpenCall* call) : call_(call) {}
    void Run() override { call_->RunCancel(); }

   private:
    OpenCall* const call_;
  };

  static uint64_t BeginTiming(OpenCalls* calls);
  // Parts of Configure(): for a stream, and for the length of a message.
  bool ConfigureStream(const MethodConfig& by);
  bool CheckRequest(uint64_t bytes, const MethodConfig& by);
  bool RefuseResponse(uint64_t bytes);
  void EndRetries();
  // An attempt has ended with `status`. Returns whether the call goes on.
  bool TryAgainAfter(const absl::Status& status);
  void ChangeSendsName();
  // Has the head (see WriteHead()), of so many bytes, go in the REQUEST if it
  // fits there, else before it.
  void PlaceHead(uint32_t bytes);
  uint8_t* WriteNameAndMetadata(uint8_t* out, const uint8_t* limit) const;
  void RunCancel();
  // Takes the metadata of the response. Returns the rest of its status message
  // that was among them.
  absl::StatusOr<std::string> TakeTrailingMetadata(
      const transport::CallResponse& response);
  // Returns the error that a response carries. Its message goes on with `rest`.
  absl::Status ReadError(const transport::CallResponse& response,
                         absl::string_view rest) const;

 protected:
  ClientContext* const context_;

 private:
  bool has_context_;         // The context is reserved for this call.
  bool refused_ = false;     // A server has refused it before it did anything.
  const bool streams_;       // The method streams.
  bool sends_name_ = false;  // See SetSendsName().
  bool waits_by_config_ = false;
  uint64_t max_response_bytes_ = UINT64_MAX;  // By the service config.
  OpenCalls* const calls_;
  const char* const method_name_;
  // The TSC value at the start; 0 if this call is not timed.
  const uint64_t begun_;
  MethodCounters* counters_ = nullptr;  // Its method's.
  std::unique_ptr<ClientInterception> interception_;
  absl::Status status_;  // OK until the call has ended.

  CancelTask cancel_task_{this};
  // cancel_task_ was posted; it must run before the call may be destroyed.
  std::atomic<bool> cancel_posted_{false};
  bool cancel_ran_ = false;  // cancel_task_ has begun to run.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_OPEN_CALL_H_
