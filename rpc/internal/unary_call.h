// One call of a client, from the stub to the transport and back.

#ifndef VERBENA_RPC_INTERNAL_UNARY_CALL_H_
#define VERBENA_RPC_INTERNAL_UNARY_CALL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "rpc/client_context.h"
#include "transport/connection/client_call.h"
#include "transport/connection/poller_task.h"

namespace verbena::internal {

class UnaryCall;

// What a call needs of its channel.
class UnaryCallOwner {
 public:
  // Has `task` run with the role held, soon, but never from inside this
  // function. From any thread.
  virtual void PostFromOutside(transport::PollerTask* task) = 0;

  // The following are called with the role held.
  virtual void StartCall(UnaryCall* call) = 0;
  // The user wants `call` to end: see to it that it does.
  virtual void CancelCall(UnaryCall* call) = 0;
  // `call` has its status(); it is the channel's to report and destroy.
  virtual void CompleteCall(UnaryCall* call) = 0;
  virtual void LearnReplySize(uint64_t method_id, uint64_t bytes) = 0;
  // Why calls that the transport ends do end; `status` itself normally.
  virtual absl::Status ExplainFailure(const absl::Status& status) = 0;

 protected:
  ~UnaryCallOwner() = default;
};

// A blocking call lives on the stack of its thread, an asynchronous one in its
// context (on the heap if another call has that). After Prepare() and until
// CompleteCall() everything happens with the channel's poller role held, but
// for Cancel().
//
// The context, the messages and the name must outlive it.
class UnaryCall final : public transport::ClientCall,
                        public transport::PollerTask,
                        public CancellableCall {
 public:
  UnaryCall(UnaryCallOwner* owner, const char* method_name, uint64_t method_id,
            ClientContext* context,
            const google::protobuf::MessageLite* message,
            google::protobuf::MessageLite* reply);
  UnaryCall(const UnaryCall&) = delete;
  UnaryCall& operator=(const UnaryCall&) = delete;
  ~UnaryCall() = default;

  // Makes an asynchronous call, and reserves the context for it. The owner of
  // what it returns calls Destroy().
  static UnaryCall* New(UnaryCallOwner* owner, const char* method_name,
                        uint64_t method_id, ClientContext* context,
                        const google::protobuf::MessageLite* message,
                        google::protobuf::MessageLite* reply);
  // Of a call that New() made. The context is free afterwards.
  void Destroy();

  // The same for a blocking call, on whose stack it lives.
  void ReserveContext() { has_context_ = context_->Reserve(); }
  void ReleaseContext() {
    if (has_context_) context_->Release();
  }

  // Measures the message and opens the context. When it fails (also because
  // another call has the context), the call is over: report the error, and
  // destroy it.
  absl::Status Prepare(uint64_t max_message_bytes);

  // Says how long a reply the channel expects, unless the user said so.
  void SetReplyHint(uint64_t bytes);

  // Gives a call whose Prepare() failed its status.
  void SetFailedBeforeStart(absl::Status status);

  // Ends a call that the transport does not have (any more).
  void Fail(const absl::Status& status);

  // As PollerTask: starts the call.
  void Run() override { owner_->StartCall(this); }

  // As CancellableCall, from any thread.
  void Cancel() override;

  // As the transport's call.
  void WriteRequest(uint8_t* out) override;
  void OnResponse(const transport::CallResponse& response) override;
  void OnFailed(const absl::Status& status) override;

  const char* method_name() const { return method_name_; }
  ClientContext* context() const { return context_; }
  absl::Time deadline() const { return request_.deadline; }
  // How it ended. Once.
  absl::Status TakeStatus() { return std::move(status_); }

  // --- The channel's notes ---

  // Where the call stands for CancelCall().
  enum class Stage : uint8_t {
    kNew,        // Not started: it waits among the posted tasks.
    kPending,    // Waits for a connection.
    kLaunched,   // The transport has it.
    kCompleted,  // It has its status.
  };
  Stage stage = Stage::kNew;

  // In the list of pending calls, or that of completed ones.
  UnaryCall* next = nullptr;
  UnaryCall* previous = nullptr;

  // Asynchronous calls only.
  absl::AnyInvocable<void(absl::Status)> on_done;

  // Blocking calls only: how the thread that waits for the call, and is not
  // the one that polls, hears of its end. The holder of the role sets kFinished
  // and then touches the waiter no more, unless it was kListed.
  struct Waiter {
    enum class State : uint8_t {
      kOpen,      // The thread polls, or looks here again and again.
      kListed,    // It is in the channel's list of waiters, and may sleep.
      kFinished,  // The call has its status.
    };
    bool finished() const {
      return state.load(std::memory_order_acquire) == State::kFinished;
    }

    // Becomes and ceases to be kListed under the channel's mutex.
    std::atomic<State> state{State::kOpen};
    // The waiting thread's own notes.
    bool ever_listed = false;
    bool may_spin = true;  // There was somebody to poll.
    // Under the channel's mutex.
    bool woken = false;   // Told to try the role.
    bool listed = false;  // In the list; the waiter stays until it is not.
    // Made when it is first listed: most never are.
    std::optional<std::condition_variable> changed;
    Waiter* next = nullptr;
    Waiter* previous = nullptr;
  };
  Waiter* waiter = nullptr;

 private:
  // A second task, because the first may still stand in a queue.
  class CancelTask final : public transport::PollerTask {
   public:
    explicit CancelTask(UnaryCall* call) : call_(call) {}
    void Run() override { call_->RunCancel(); }

   private:
    UnaryCall* const call_;
  };

  absl::Status ContextInUse() const;
  absl::Status Measure(uint64_t max_message_bytes);
  void RunCancel();
  absl::Status ReadResponse(const transport::CallResponse& response);
  absl::Status ReadError(const transport::CallResponse& response);
  // Puts the method's name before the message.
  absl::Status Explain(const absl::Status& status) const;
  void End(absl::Status status);

  UnaryCallOwner* const owner_;
  const char* const method_name_;
  ClientContext* const context_;
  bool has_context_ = false;  // It is reserved for this call.
  const google::protobuf::MessageLite* const message_;
  google::protobuf::MessageLite* const reply_;

  absl::Status status_;

  CancelTask cancel_task_{this};
  // cancel_task_ was posted; it must run before the call may be destroyed.
  std::atomic<bool> cancel_posted_{false};
  bool cancel_ran_ = false;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_UNARY_CALL_H_
