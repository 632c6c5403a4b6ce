// A call of a server, from the transport to the user's handler and back.

#ifndef VERBENA_RPC_INTERNAL_SERVER_HANDLER_CALL_H_
#define VERBENA_RPC_INTERNAL_SERVER_HANDLER_CALL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "rpc/credentials.h"
#include "rpc/internal/call/server_call_state.h"
#include "rpc/internal/metrics/method_counters.h"
#include "rpc/internal/server/call_gate.h"
#include "rpc/internal/server/handler_pace.h"
#include "rpc/internal/server/handler_stream.h"
#include "rpc/internal/server/interception.h"
#include "rpc/internal/server/reactor_handler.h"
#include "rpc/internal/server/thread_pool.h"
#include "rpc/server_reactor.h"
#include "rpc/support/method.h"
#include "transport/base/mutex.h"
#include "transport/polling/poller_threads.h"
#include "transport/polling/task.h"
#include "transport/server/server_call.h"

namespace verbena::internal {

class HandlerCallPool;

// State shared by the calls of one method that workers may serve.
struct BlockingMethod {
  // The pace of the method's handlers; for an asynchronous method, of parsing
  // 64 KiB.
  HandlerPace pace;
  ThreadPool::Lane lane;
};

// Limits on what the handlers of a server may answer.
struct ReplyLimits {
  uint64_t message_bytes;  // Longer ones end the call with an error.
  size_t status_bytes;     // Longer status messages are cut.
};

// The reactor that ServerContext::DefaultReactor() returns.
class DefaultReactor final : public ServerUnaryReactor {
 public:
  void OnDone() override {}
};

// Serves one call of one method at a time, and is then used again for the next:
// the messages keep their memory. Begins on the poller of its connection, and
// ends there. The handler runs
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
//
// The pool that it comes from, the method and the threads must outlive it.
class HandlerCall final : public WorkerTask,
                          public ServerCallState,
                          public transport::ReplyWriter {
 public:
  // Null `threads` and `blocking` mean that handlers run on the poller; a null
  // `gate`, that nobody looks at calls before they do.
  HandlerCall(HandlerCallPool* pool, const Method* method, int method_index,
              ThreadPool* threads, BlockingMethod* blocking,
              const CallGate* gate, const ReplyLimits& limits,
              MethodCounters* counters);
  HandlerCall(const HandlerCall&) = delete;
  HandlerCall& operator=(const HandlerCall&) = delete;

  // Serves `call`. REQUIRES: new, or recycled. On the poller; may end the call.
  void Begin(transport::ServerCall* call);

  // The caller has lost interest. On the poller, in the middle of things.
  void OnCancelled();

  // For the status page; on the poller, while the handler has the call.
  // begun() is the TSC value when the call arrived; calls that are over before
  // anybody could look have none. awaits_worker() tells whether the call waits
  // for a thread.
  uint64_t begun() const { return begun_; }
  bool awaits_worker() const {
    return awaits_worker_.load(std::memory_order_relaxed);
  }

  // The method's number in the registry.
  int method_index() const { return method_index_; }
  // Whether the method streams.
  bool streams() const { return streams_; }
  // Whether the messages take so much memory that they are better given back.
  // What a few requests of less than a KiB may have added is not looked at, as
  // that takes longer than such a call has. At the end of a call, once.
  bool HoldsTooMuch();

  // As ServerCallState. Any thread while the handler runs.
  bool IsCancelled() const override;
  const std::string& method() const override {
    return generic_name_.empty() ? method_->full_name() : generic_name_;
  }
  const std::string& peer() const override {
    return call_ == nullptr ? at_end_.peer : call_->peer();
  }
  const std::string& device() const override {
    return call_ == nullptr ? at_end_.device : call_->device_name();
  }
  std::shared_ptr<const AuthContext> auth_context() const override;
  void SendInitialMetadata() override {
    if (data().TakeInitialMetadata()) PostInitialMetadata();
  }
  // For the stream, before a message: sends the initial metadata if there are
  // any and they are not sent. After the first message none can be sent.
  void SendInitialMetadataDue() {
    if (data().TakeInitialMetadata() && !data().initial_metadata.empty()) {
      PostInitialMetadata();
    }
  }
  // Whether the initial metadata can't be sent. For the thread that sends them.
  bool initial_metadata_failed() const { return !initial_failure_.ok(); }
  Buffer AllocateBuffer(size_t bytes) const override {
    return call_ == nullptr ? Buffer::Plain(bytes)
                            : call_->AllocateAttachment(bytes);
  }
  // The next two by one thread at a time.
  std::stop_token stop_token() override;
  ServerUnaryReactor* DefaultReactor() override {
    return &default_reactor_.emplace();
  }

  // For the ReactorHandler. Posts to the poller, from any thread: one that is
  // not the library's may still be in there when the call, and the server, have
  // ended.
  void Post(transport::Poller& poller, transport::Task* task);
  // Runs `handler`, which is the user's code, unless the gate is against the
  // call. UNKNOWN if it throws an exception.
  absl::Status Guard(absl::FunctionRef<absl::Status()> handler);
  // The reactor has ended the call, or there is none: sends the reply, now or
  // soon. This may be gone afterwards.
  void EndReactor(absl::Status status);
  // Whether a worker should parse a message of so many bytes, because the
  // poller would serve nobody for too long. Any thread.
  bool ParsesOnWorker(uint64_t bytes) const {
    return bytes > kLargeBytes &&
           (bytes > kPollerParsesBytes || !blocking_->pace.is_short());
  }
  // Measures how fast so many bytes are parsed, for ParsesOnWorker().
  class ParseTimer {
   public:
    ParseTimer(HandlerCall* call, uint64_t bytes)
        : pace_(bytes > kLargeBytes && bytes <= kPollerParsesBytes
                    ? &call->blocking_->pace
                    : nullptr),
          bytes_(bytes),
          start_(pace_ == nullptr ? 0 : __builtin_ia32_rdtsc()) {}
    ParseTimer(const ParseTimer&) = delete;
    ParseTimer& operator=(const ParseTimer&) = delete;
    ~ParseTimer() {
      if (pace_ == nullptr) return;
      const uint64_t now = __builtin_ia32_rdtsc();
      // As if each message had so many bytes: one of a few large fields is
      // quick, because it is copied, and one of many small fields is not.
      pace_->NoteTime((now - start_) * kLargeBytes / bytes_, now);
    }

   private:
    HandlerPace* const pace_;  // Null if nothing is measured.
    const uint64_t bytes_;
    const uint64_t start_;
  };
  // Has a worker parse the call's long message. Fails if the workers have too
  // much to do.
  absl::Status SubmitToWorkers();

  // As ShortTask: takes the step that it was posted for.
  void Run() override;
  bool MoveElsewhere() override {
    ServeOnWorker();
    return true;
  }

  // As ReplyWriter.
  void WriteReply(uint8_t* out) override;
  void OnReplyDone() override;

 private:
  // Messages of more bytes may take long to parse. Messages of the library that
  // took more memory are not kept.
  static constexpr uint64_t kLargeBytes = 64 << 10;
  // Longer messages are never parsed by a poller, however short the method has
  // turned out to be: the next one may have many more fields.
  static constexpr uint64_t kPollerParsesBytes = 2 << 20;

  // Parses the metadata, and takes the method's name out of them. Returns what
  // keeps the call from its handler.
  absl::Status TakeMetadata();
  // Whether the handler may run between two rounds.
  bool IsShort() const;
  // Has a worker serve the call; ends it if they have too much to do.
  void ServeOnWorker();
  // On a worker, or on the thread that polls, which lends the poller: parses if
  // that was not done, runs the handler, and posts the rest.
  void RunOnWorker();
  void RunBesidePoller();
  // Posts this to the poller.
  void PostReply();
  // On the poller: gives the reply to the transport, or the parsed request to
  // its reactor.
  void TakeFromWorker();
  // Makes the reply.
  void Serve();
  // Parses the message, and gives its memory back. Returns false if it could
  // not; reply_ says why.
  bool Parse();
  // Calls the handler, and takes the reply that it made.
  bool Handle();
  // Takes the reply of a handler that has returned `status`, and tells the
  // interceptors. Returns false if the call ends with an error, which is in
  // reply_.
  bool TakeReply(absl::Status status);
  bool TakeInterceptedReply();
  // Measures the reply of a handler that has returned OK; likewise.
  bool MeasureReply();
  // The handler of a method that streams has ended: likewise.
  void TakeStreamStatus(absl::Status status);
  // Calls the handler of a method that streams.
  void HandleStream();
  // Calls the handler.
  absl::Status RunHandler();
  // Returns the call's status from the handler's: DEADLINE_EXCEEDED if the
  // handler was told that the deadline has passed.
  absl::Status Answer(absl::Status status) const;
  // Returns whether the call may go to its handler, by the gate, which is asked
  // once a call. May throw what the user's code throws.
  absl::Status Admit();
  // As Admit(), but only by the AuthMetadataProcessor.
  absl::Status ProcessAuthMetadata();
  absl::Status StartInterception();
  // Returns the status of a call that has been cancelled.
  absl::Status CancelledStatus() const;
  // Serialises a large reply now, if there is memory.
  void WriteAhead();
  // Keeps what the context can still be asked in OnDone().
  void KeepForOnDone();
  // Ends the call the transport's short way, if it is a good reply that is a
  // message and nothing else and can be sent at once. Returns whether it was.
  bool SendPlainReply();
  void PostInitialMetadata() const;
  // Initial metadata as they are sent; nothing, and initial_failure_, if the
  // client does not take them.
  std::optional<std::string> InitialText() const;
  // Says what goes with the reply beside its message.
  void PlaceMetadata();
  void PlaceInitialMetadata();
  // Adds to the trailing metadata what the RESPONSE has no room for of the
  // error.
  void PlaceStatus();
  void PlaceTrailingMetadata();
  // The payloads of the error, if it has any and the client takes so much.
  void AddStatusDetails();
  // Whether the details, if there are any, have all of the message too.
  bool DetailsHaveMessage() const;
  // The rest of a long message, as much as the client takes.
  void AddStatusRest();
  void Finish();
  // Counts the end of the call, which ends with reply_.
  void NoteEnd();
  void NoteStreamEnd();
  // Called when nobody needs this any more: it may serve another call.
  void Over();
  void TellCancelled();

  // A second task, because the call itself may stand in a queue.
  class CancelTask final : public transport::Task {
   public:
    explicit CancelTask(HandlerCall* call) : call_(call) {}
    void Run() override { call_->TellCancelled(); }

   private:
    HandlerCall* const call_;
  };

  HandlerCallPool* const pool_;
  const Method* const method_;
  const int method_index_;
  ThreadPool* const threads_;
  BlockingMethod* const blocking_;
  const CallGate* const gate_;
  const uint64_t max_reply_bytes_;
  const size_t max_status_bytes_;
  MethodCounters& counters_;
  const std::unique_ptr<CallMessages> messages_;
  // Parsed and serialised since the memory of the messages was measured.
  uint64_t unmeasured_bytes_ = 0;
  google::protobuf::MessageLite* const request_;  // These two are messages_'.
  google::protobuf::MessageLite* const response_;
  const bool streams_;
  const std::unique_ptr<ReactorHandler> reactors_;  // Null unless asynchronous.
  CancelTask cancel_task_{this};

  // The fields below are about the current call.

  transport::ServerCall* call_ = nullptr;  // Null between calls.
  // The step that Run() takes next, and the thread in whose queue this is.
  enum class Step : uint8_t { kOnWorker, kBesidePoller, kReply };
  Step step_ = Step::kReply;
  bool timed_ = false;  // Else its handler runs in the round, and is quick.
  uint64_t begun_ = 0;  // If so: the TSC value at its arrival.
  std::atomic<bool> awaits_worker_{false};  // In their queue.
  std::unique_ptr<HandlerStream> stream_;   // Null unless it streams.
  // The method's name if a generic service is asked; else empty.
  std::string generic_name_;
  // The AuthContext that the AuthMetadataProcessor made from the connection's;
  // null without a processor.
  std::shared_ptr<AuthContext> auth_context_;
  std::unique_ptr<ServerInterception> interception_;  // Null if it has none.
  bool admitted_ = false;                             // The gate was asked.
  bool parsed_ = false;
  bool unserved_ = false;        // Over before a worker was free.
  bool starts_reactor_ = false;  // When a worker has parsed the request.
  bool is_large_ = false;
  // The handler was told that the deadline has passed. One that returns for
  // that may do so before the client has looked at its clock: what it returns
  // is not an answer.
  mutable std::atomic<bool> told_expired_{false};
  // Initial metadata that were posted to the poller, which sends them when it
  // comes to that, or when it ends the call, whatever comes first.
  struct UnsentInitial {
    void Send() {
      if (call == nullptr) return;
      std::exchange(call, nullptr)->SendInitialMetadata(std::move(text));
    }
    transport::ServerCall* call = nullptr;
    std::string text;
  };
  mutable std::shared_ptr<UnsentInitial> unsent_initial_;
  // The reason for which initial metadata were not sent. The handler's thread
  // only, until the handler has returned.
  mutable absl::Status initial_failure_;
  // The reply, as far as it is known. The lengths stay until the next call,
  // because WriteReply() needs them.
  transport::ServerCall::Reply reply_;

  // Copies of the call's properties, for when call_ is null again.
  struct {
    bool cancelled = false;
    std::string peer;
    std::string device;
    std::shared_ptr<const AuthContext> auth_context;
  } at_end_;

  std::optional<internal::DefaultReactor> default_reactor_;
  bool cancel_posted_ = false;  // cancel_task_ is to run. The poller's.
  bool over_ = false;           // Over() is to run after that.
  // Whether cancel_seen_ or stop_source_ was used, so that Over() must
  // reset them.
  std::atomic<bool> cancel_used_{false};
  base::Mutex cancel_mutex_;
  bool cancel_seen_ ABSL_GUARDED_BY(cancel_mutex_) = false;
  // Made when the handler asks for it.
  std::optional<std::stop_source> stop_source_ ABSL_GUARDED_BY(cancel_mutex_);
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVER_HANDLER_CALL_H_
