// One call of a client, from the stub to the transport and back.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_UNARY_CALL_H_
#define VERBENA_RPC_INTERNAL_CLIENT_UNARY_CALL_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "google/protobuf/message_lite.h"
#include "rpc/client_context.h"
#include "rpc/internal/client/errand.h"
#include "rpc/internal/client/waiters.h"
#include "transport/connection/client_call.h"
#include "transport/connection/client_connection.h"
#include "transport/connection/poller_task.h"

namespace verbena::internal {

class OpenCalls;

// The user's call, and also its attempts on connections, one after the other:
// the functions that transport::ClientCall asks for are the attempt's. There is
// another one only after one of which the server has certainly done nothing.
//
// A blocking call lives on the stack of its thread, an asynchronous one in its
// context (on the heap if another call has that). Between Prepare() and its
// report, everything happens with the polling role held, but for Cancel(). The
// callback is called without it.
//
// The context, the messages and the name must outlive it.
class UnaryCall final : public transport::ClientCall,
                        public transport::PollerTask,
                        public Errand,
                        public CancellableCall {
 public:
  UnaryCall(OpenCalls* calls, const char* method_name, uint64_t method_id,
            ClientContext* context,
            const google::protobuf::MessageLite* message,
            google::protobuf::MessageLite* reply)
      : context_(context),
        message_(message),
        reply_(reply),
        calls_(calls),
        method_name_(method_name) {
    request_.method_id = method_id;
  }
  UnaryCall(const UnaryCall&) = delete;
  UnaryCall& operator=(const UnaryCall&) = delete;
  ~UnaryCall() = default;

  // Makes an asynchronous call, and reserves the context for it. The owner of
  // what it returns calls Destroy().
  static UnaryCall* New(OpenCalls* calls, const char* method_name,
                        uint64_t method_id, ClientContext* context,
                        const google::protobuf::MessageLite* message,
                        google::protobuf::MessageLite* reply);
  // Destroys a call that New() made. The context is free afterwards.
  void Destroy();

  // The same for a blocking call, on whose stack it lives.
  void ReserveContext() { has_context_ = context_->Reserve(); }
  void ReleaseContext() {
    if (has_context_) context_->Release();
  }

  // Measures the message and opens the context. Returns whether that worked. If
  // it did not (also because another call has the context), the call is over
  // and has its status.
  bool Prepare(uint64_t max_message_bytes);

  // Says how long a reply the channel expects, unless the user said so.
  void SetReplyHint(uint64_t bytes) {
    const uint64_t users_hint = context_->reply_size_hint();
    request_.reply_hint_bytes = users_hint > 0 ? users_hint : bytes;
  }

  // Ends a call that the transport does not have (any more).
  void Fail(const absl::Status& status);

  // As PollerTask: see OpenCalls::RunPosted().
  void Run() override;

  // As Errand: calls on_done, before which it destroys this.
  void RunErrand() override;

  // As CancellableCall, from any thread.
  void Cancel() override;

  // As the transport's call.
  void WriteRequest(uint8_t* out) override;
  void OnResponse(const transport::CallResponse& response) override;
  void OnUnsent(const absl::Status& why) override;
  void OnFailed(const absl::Status& status) override;

  ClientContext* context() const { return context_; }
  absl::Time deadline() const { return request_.deadline; }
  // How it ended. Once.
  absl::Status TakeStatus() { return std::move(status_); }

  // --- For OpenCalls ---

  enum class Stage : uint8_t {
    kNew,       // Not started yet; maybe it is posted.
    kRefused,   // Prepare() has failed, and this is to be reported.
    kWaiting,   // Waits for a connection.
    kLaunched,  // The transport has it.
    kUnsent,    // The transport has given it back; it is posted.
    kEnded,     // It has its status.
  };
  Stage stage = Stage::kNew;

  // The connection that has the call, once it is launched.
  transport::ClientConnection* connection = nullptr;

  // How the thread of a blocking call hears of its end; else null.
  Waiter* waiter = nullptr;
  // Told of the end of an asynchronous call; a blocking one has none.
  std::optional<absl::AnyInvocable<void(absl::Status)>> on_done;

  // In the list of calls that wait for a connection.
  UnaryCall* next = nullptr;
  UnaryCall* previous = nullptr;

 private:
  // A second task, because the call itself may still stand in a queue.
  class CancelTask final : public transport::PollerTask {
   public:
    explicit CancelTask(UnaryCall* call) : call_(call) {}
    void Run() override { call_->RunCancel(); }

   private:
    UnaryCall* const call_;
  };

  // How Prepare() ends when it fails. Both return false.
  bool ContextInUse();
  bool NotOpened(const absl::Status& status);
  void RunCancel();
  // The error that a response carries.
  absl::Status ReadError(const transport::CallResponse& response) const;
  // Puts the method's name before the message.
  absl::Status Explain(const absl::Status& status) const;
  void EndWith(absl::Status status);
  // The call has its status: reports it.
  void End();

  ClientContext* const context_;
  bool has_context_ = false;  // The context is reserved for this call.
  bool refused_ = false;      // A server has refused it before it did anything.
  const google::protobuf::MessageLite* const message_;
  google::protobuf::MessageLite* const reply_;
  OpenCalls* const calls_;
  const char* const method_name_;
  absl::Status status_;  // How the call ended; OK until then.

  CancelTask cancel_task_{this};
  // cancel_task_ was posted; it must run before the call may be destroyed.
  std::atomic<bool> cancel_posted_{false};
  bool cancel_ran_ = false;  // cancel_task_ has begun to run.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_UNARY_CALL_H_
