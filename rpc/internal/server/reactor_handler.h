// Serves the calls of a method whose handlers do not block.

#ifndef VERBENA_RPC_INTERNAL_SERVER_REACTOR_HANDLER_H_
#define VERBENA_RPC_INTERNAL_SERVER_REACTOR_HANDLER_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "rpc/buffer.h"
#include "rpc/internal/server/call_state.h"
#include "rpc/internal/server/handler_guard.h"
#include "rpc/internal/server/handler_pace.h"
#include "rpc/internal/server/poller_share.h"
#include "rpc/internal/stream/protobuf_stream.h"
#include "rpc/internal/stream/reactions.h"
#include "rpc/server_reactor.h"
#include "rpc/support/method.h"
#include "rpc/support/stream_reactor.h"
#include "transport/polling/task.h"
#include "transport/server/server_call.h"
#include "transport/streams/message_stream.h"

namespace verbena::internal {

// Serves one call at a time, on the poller, but for what its reactor's
// operations do from other threads.
class ReactorHandler final : public ReactorCall,
                             public transport::Task,
                             public transport::MessageStream::Owner {
 public:
  // Has the rest of the call.
  class Owner {
   public:
    // The reactor has ended the call, or there is none: sends the reply, now or
    // soon. The handler may be gone afterwards.
    virtual void EndReactor(absl::Status status) = 0;
    // Has a worker call ParseLong(), and then the poller OnLongParsed(). Fails
    // if the workers have too much to do.
    virtual absl::Status SubmitToWorkers() = 0;

   protected:
    ~Owner() = default;
  };

  // All must outlive it. `pace` is that of parsing.
  ReactorHandler(Owner* owner, const Method* method, CallState* state,
                 HandlerGuard* guard, CallMessages* messages,
                 PollerShare* share, HandlerPace* pace)
      : owner_(*owner),
        method_(*method),
        state_(*state),
        guard_(*guard),
        messages_(*messages),
        share_(*share),
        pace_(*pace) {}
  ReactorHandler(const ReactorHandler&) = delete;
  ReactorHandler& operator=(const ReactorHandler&) = delete;

  // Serves `call`; a unary one when its request is parsed. May end it.
  void Begin(transport::ServerCall* call);
  // Nobody waits for the answer any more. Not in the middle of things.
  void OnCancelled();
  // The call is the transport's again.
  void Detach();
  // The call is over, and its context no longer in use.
  void OnOver();
  // Whether the reactor may ask the context something from inside OnDone().
  bool reacts_to_done() const {
    return reactor_ != nullptr && reactor_->reacts_to_done();
  }

  // Whether a worker is to parse a long message of the stream, or does.
  bool on_worker() const { return on_worker_; }
  // Parses it, on the worker.
  void ParseLong();
  // Goes on with it, back on the poller.
  void OnLongParsed();

  // As the reactor's call.
  void PostReactions() override;
  OperationNow ReadNow(google::protobuf::MessageLite* message,
                       Buffer* attachment) override;
  OperationNow WriteNow(const google::protobuf::MessageLite& message,
                        Attachment attachment) override;

  // As Task.
  void Run() override;

  // As the stream's owner.
  void PostStream() override;
  void OnReadable() override { Tell(); }
  void OnWritable() override { Tell(); }

 private:
  // Something has happened to the stream.
  void Tell();
  // Reads a message on the poller. If that should not parse it, has a worker do
  // so, and returns kWait; the reactor is told when that is done.
  ProtobufStream::Result Read(google::protobuf::MessageLite* message,
                              Buffer* attachment);
  // Reads a message unless a worker should parse it: then takes it, and returns
  // kWait.
  ProtobufStream::Result ReadShort(google::protobuf::MessageLite* message,
                                   Buffer* attachment);
  ProtobufStream::Result Parse(google::protobuf::MessageLite* message,
                               Buffer* attachment);
  ProtobufStream::Result Write(const google::protobuf::MessageLite& message,
                               Attachment attachment);
  // Reads the request of a method that streams only its responses.
  void ReadRequest();
  // Calls the method, which makes the reactor.
  void Start();
  void RunReactions();
  void SendInitialMetadata();
  Reactions::Look Serve(uint32_t wanted);
  // Returns the status that the call ends with, from the reactor's. If that is
  // OK, writes the response before.
  absl::Status FinalStatus(absl::Status status);

  // See ProtobufStream::failed().
  bool failed() const { return stream_.has_value() && stream_->failed(); }

  Owner& owner_;
  const Method& method_;
  CallState& state_;
  HandlerGuard& guard_;
  CallMessages& messages_;
  PollerShare& share_;
  HandlerPace& pace_;

  // The rest is about the current call.

  transport::ServerCall* call_ = nullptr;
  std::optional<ProtobufStream> stream_;  // Unless it is unary.
  ServerReactor* reactor_ = nullptr;      // Once the method has made it.
  bool told_cancelled_ = false;           // The reactor was.

  // The reader's: the message that was taken last, and whether it waits for a
  // worker.
  transport::MessageStream::Message taken_;
  bool has_long_ = false;
  // The message and attachment that a worker parses to. The poller's, but the
  // worker's while on_worker_ is set; likewise long_result_.
  google::protobuf::MessageLite* long_message_ = nullptr;
  Buffer* long_attachment_ = nullptr;
  bool on_worker_ = false;
  std::optional<ProtobufStream::Result> long_result_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVER_REACTOR_HANDLER_H_
