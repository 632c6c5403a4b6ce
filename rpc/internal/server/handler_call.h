// A call of a server, from the transport to the user's handler and back.

#ifndef VERBENA_RPC_INTERNAL_SERVER_HANDLER_CALL_H_
#define VERBENA_RPC_INTERNAL_SERVER_HANDLER_CALL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "rpc/internal/metrics/method_counters.h"
#include "rpc/internal/server/call_state.h"
#include "rpc/internal/server/handler_guard.h"
#include "rpc/internal/server/handler_stream.h"
#include "rpc/internal/server/kept_messages.h"
#include "rpc/internal/server/method_registry.h"
#include "rpc/internal/server/poller_share.h"
#include "rpc/internal/server/reactor_handler.h"
#include "rpc/internal/server/reply_builder.h"
#include "rpc/internal/server/thread_pool.h"
#include "rpc/support/method.h"
#include "transport/polling/task.h"
#include "transport/server/server_call.h"

namespace verbena::internal {

// Runs the handler of one call of one method at a time, and is then used again
// for the next. Begins on the poller of its connection, and ends there. The
// handler runs
// * on the poller, in the round, if it is said never to block, or is
//   asynchronous: then a ReactorHandler has the rest of the call, and workers
//   parse large messages, unless that has turned out to be quick;
// * on the thread that polls, between two rounds, if the method's handlers have
//   turned out to be short: another thread polls if this one blocks after all;
// * else on a worker, as all that stream.
//
// A small request is parsed on the poller, because it is in a receive buffer; a
// large one with the handler. A large reply is serialised after the handler
// into registered memory if there is some, else by the poller when there is.
class HandlerCall final : public WorkerTask,
                          public ReactorHandler::Owner,
                          public transport::ReplyWriter {
 public:
  // Where calls come from.
  class Owner {
   public:
    // `call` is over and may serve another one.
    virtual void Recycle(HandlerCall* call) = 0;

   protected:
    ~Owner() = default;
  };

  // All must outlive it. Null `blocking` means that the handlers run in the
  // round.
  HandlerCall(Owner* owner, PollerShare* share,
              const MethodRegistry::Method& method, BlockingMethod* blocking,
              MethodCounters* counters);
  HandlerCall(const HandlerCall&) = delete;
  HandlerCall& operator=(const HandlerCall&) = delete;

  // Serves `call`. REQUIRES: new, or recycled. On the poller; may end the call.
  void Begin(transport::ServerCall* call);

  // The caller has lost interest. On the poller, in the middle of things.
  void OnCancelled();

  // For the status page; on the poller, while the handler has the call.
  const std::string& method_name() const { return state_.method(); }
  // The TSC value when the call arrived; calls that are over before anybody
  // could look have none.
  uint64_t begun() const { return begun_; }
  // Whether the call waits for a worker.
  bool awaits_worker() const {
    return step_.load(std::memory_order_relaxed) == Step::kAwaitWorker;
  }

  // The method's number in the registry.
  int method_index() const { return method_index_; }
  // Whether the method streams.
  bool streams() const { return streams_; }
  // See KeptMessages.
  bool HoldsTooMuch() { return messages_.HoldTooMuch(); }

  // As ShortTask: takes the step that it was posted for.
  void Run() override;
  bool MoveElsewhere() override {
    ServeOnWorker();
    return true;
  }

  // As the owner of a ReactorHandler.
  void EndReactor(absl::Status status) override;
  absl::Status SubmitToWorkers() override;

  // As ReplyWriter.
  void WriteReply(uint8_t* out) override { reply_.WriteTo(out); }
  void OnReplyDone() override { Over(); }

 private:
  // Hears of the end of interest between two things. A second task, because the
  // call itself may stand in a queue.
  class CancelTask final : public transport::Task {
   public:
    explicit CancelTask(HandlerCall* call) : call_(call) {}
    void Run() override { call_->TellCancelled(); }
    bool is_posted = false;
    bool ends_call = false;  // The call is over once this has run.

   private:
    HandlerCall* const call_;
  };

  // Steps that Run() takes, and their threads.
  enum class Step : uint8_t {
    kAwaitWorker,   // On a worker.
    kBesidePoller,  // On the thread that polls, which lends the poller.
    kWorking,       // Nothing: Run() has begun.
    kFinish,        // On the poller, as the rest.
    kUnserved,      // Over before a worker was free.
    kBeginReactor,  // A worker has parsed the request.
    kLongParsed,    // A worker has parsed a long message of the stream.
  };

  // Has a reactor, or a thread, serve the call.
  void BeginReactor();
  void BeginHandler();
  // Whether the handler may run between two rounds.
  bool IsShort() const;
  // Has a worker serve the call; ends it if they have too much to do.
  void ServeOnWorker();
  // On a worker: serves the call, as far as that is not for the poller. Returns
  // the step that is left.
  Step Work();
  // Between two rounds: serves the call, and posts the rest.
  void RunBesidePoller();
  // Posts this to the poller. The call may be over before this returns.
  void Post(Step step);
  // Parses if that was not done, and makes the reply.
  void Serve();
  // Parses the message, and gives its memory back. Returns false if it could
  // not: then the call has failed.
  bool Parse();
  // Calls the handler, and takes the reply that it made. Returns false if the
  // call has failed.
  bool Handle();
  // Calls the handler of a method that streams.
  void HandleStream();
  // Takes the reply of a handler that has returned `status`; as Handle().
  bool TakeReply(absl::Status status);
  // On the poller: gives the reply to the transport.
  void Finish();
  // Ends the call the transport's short way, if the reply is plain and can be
  // sent at once. Returns whether it was.
  bool SendPlainReply();
  // Counts the end of the call.
  void NoteEnd();
  // Called when nobody needs this any more: it may serve another call.
  void Over();
  void TellCancelled();

  Owner& owner_;
  PollerShare& share_;
  const Method& method_;
  const int method_index_;
  const bool streams_;
  BlockingMethod* const blocking_;
  KeptMessages messages_;
  CallState state_;
  HandlerGuard guard_;
  ReplyBuilder reply_;
  MethodCounters& counters_;
  const std::unique_ptr<ReactorHandler> reactors_;  // Null unless asynchronous.
  std::unique_ptr<HandlerStream> stream_;  // Null unless a thread waits.
  CancelTask cancel_task_{this};
  std::atomic<Step> step_{Step::kFinish};
  bool parsed_ = false;
  bool timed_ = false;  // Else its handler runs in the round, and is quick.
  uint64_t begun_ = 0;  // If so: the TSC value at its arrival.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVER_HANDLER_CALL_H_
