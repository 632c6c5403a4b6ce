// One call of a server, from the transport to the user's handler and back.

#ifndef VERBENA_RPC_INTERNAL_HANDLER_CALL_H_
#define VERBENA_RPC_INTERNAL_HANDLER_CALL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "rpc/internal/dispatcher.h"
#include "rpc/internal/method_registry.h"
#include "rpc/server_context.h"
#include "rpc/service.h"
#include "transport/connection/poller_task.h"
#include "transport/connection/server_call.h"

namespace verbena::internal {

class HandlerCall;

// Where calls come from and return to.
class HandlerCallOwner {
 public:
  // `call` is over and may serve another one. On its poller.
  virtual void Recycle(HandlerCall* call) = 0;

 protected:
  ~HandlerCallOwner() = default;
};

// Serves one call of one method at a time, and is then used again for the next:
// the messages keep their memory. Begins on the poller of its connection, runs
// the handler there or on a worker, and ends on the poller.
//
// A small request is parsed on the poller, because it lies in a receive slot; a
// large one on the worker. A large reply is serialised by the worker into
// registered memory if there is some, else by the poller when there is.
//
// The owner, the method and the dispatcher must outlive it. No methods but
// these three are for others than the dispatcher, the poller and the transport.
class HandlerCall final : public ServerCallInfo,
                          public WorkerTask,
                          public transport::PollerTask,
                          public transport::ReplyWriter {
 public:
  // A null `dispatcher` means that handlers run on the poller.
  HandlerCall(HandlerCallOwner* owner, const UnaryMethod* method,
              int method_index, Dispatcher* dispatcher,
              uint64_t max_reply_bytes);
  HandlerCall(const HandlerCall&) = delete;
  HandlerCall& operator=(const HandlerCall&) = delete;

  // Serves `call`. REQUIRES: new, or recycled. On the poller; may end the call.
  void Begin(transport::ServerCall* call);

  // The method's number in the registry.
  int method_index() const { return method_index_; }
  // Whether the last call was so large that the messages are better given back.
  bool is_large() const { return is_large_; }

  // As the context's call.
  bool IsCancelled() const override;
  std::string peer() const override { return call_->peer(); }
  std::string device() const override { return call_->device_name(); }
  Buffer AllocateBuffer(size_t bytes) const override {
    return call_->AllocateAttachment(bytes);
  }

  // As WorkerTask: parses if that was not done, runs the handler, posts the
  // rest.
  void RunOnWorker() override;

  // As PollerTask: gives the reply to the transport.
  void Run() override { Finish(); }

  // As ReplyWriter.
  void WriteReply(uint8_t* out) override;
  void OnReplyDone() override { owner_->Recycle(this); }

 private:
  // Parses the message, and gives its memory back.
  absl::Status Parse();
  // Calls the handler, and measures what it made.
  absl::Status Handle();
  // How a call ends that has been cancelled.
  absl::Status CancelledStatus() const;
  // Serialises a large reply now, if there is memory.
  void WriteAhead();
  void Finish();

  HandlerCallOwner* const owner_;
  const UnaryMethod* const method_;
  const int method_index_;
  Dispatcher* const dispatcher_;
  const uint64_t max_reply_bytes_;
  const std::unique_ptr<CallMessages> messages_;
  ServerContext context_{this};

  // Of the current call.
  transport::ServerCall* call_ = nullptr;
  bool parsed_ = false;
  bool is_large_ = false;
  // The handler was told that the deadline has passed. One that returns for
  // that may do so before the client has looked at its clock: what it returns
  // is not an answer.
  mutable std::atomic<bool> told_expired_{false};
  transport::ServerCall::Reply reply_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_HANDLER_CALL_H_
