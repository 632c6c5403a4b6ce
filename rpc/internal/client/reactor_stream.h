// A streaming call of a client that has a reactor.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_REACTOR_STREAM_H_
#define VERBENA_RPC_INTERNAL_CLIENT_REACTOR_STREAM_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "google/protobuf/message_lite.h"
#include "rpc/buffer.h"
#include "rpc/client_context.h"
#include "rpc/client_reactor.h"
#include "rpc/internal/client/stream_call.h"
#include "rpc/internal/client/waiters.h"
#include "rpc/internal/stream/reactions.h"
#include "rpc/stream.h"
#include "rpc/support/stream_reactor.h"
#include "transport/polling/poller_threads.h"
#include "transport/polling/task.h"

namespace verbena::internal {

// Posts a task to the background thread whenever its reactor wants something,
// or something has happened; that thread calls the reactions. It polls for the
// call too, if no thread of the user's does.
//
// Made before the call starts, and destroys itself when it is over: that is
// when it has ended, its reactor wants nothing more, and the poller has seen
// all that was posted for it.
class ReactorStream final : public StreamCall, public ReactorCall {
 public:
  // `owner` keeps the channel, and is let go of at the end.
  ReactorStream(ChannelImpl* channel, std::shared_ptr<const void> owner,
                const char* method_name, uint64_t method_id,
                ClientContext* context, ClientReactor* reactor);

  // Starts the call. If `request` is not null it is all that is written.
  void Start(RpcType type, const google::protobuf::MessageLite* request);

  // Instead of all this, where no call can be made.
  static void EndWithoutCall(ClientReactor* reactor,
                             const absl::Status& status) {
    Reactions::Forget(reactor);
    reactor->TakeWriteIsLast();
    reactor->OnDone(status);
  }

  // As the reactor's call.
  void PostReactions() override;
  OperationNow ReadNow(google::protobuf::MessageLite* message,
                       Buffer* attachment) override;
  OperationNow WriteNow(const google::protobuf::MessageLite& message,
                        Attachment attachment) override;
  void Abandon() override;

  // As OpenCall.
  void Report() override;
  absl::Status OnInitialMetadata(absl::Span<const uint8_t> metadata) override;

  // As the stream's owner.
  void OnReadable() override { Reactions::Tell(reactor_); }
  void OnWritable() override { Reactions::Tell(reactor_); }

 private:
  // Waits for the end of the call, on the stack of the thread that does.
  class EndWait final : public transport::Task {
   public:
    explicit EndWait(ReactorStream* call) : call_(call) {}
    void Run() override;
    Waiter* waiter() { return &waiter_; }

   private:
    ReactorStream* const call_;
    Waiter waiter_;
  };

  // A second task, because the call itself may be posted to the poller.
  class ReactionsTask final : public transport::ShortTask {
   public:
    explicit ReactionsTask(ReactorStream* call) : call_(call) {}
    void Run() override { call_->RunReactions(); }

   private:
    ReactorStream* const call_;
  };

  ~ReactorStream() = default;

  void RunReactions();

  Reactions::Look Serve(uint32_t wanted);
  // Tells of initial metadata if it is known what there is of them. `read` is
  // what reading has come to; kWait if that was not tried. Returns whether it
  // has told.
  bool TellInitialMetadata(uint32_t wanted, Result read);
  // Calls the last reaction, and destroys this.
  void End();

  ClientReactor* const reactor_;
  ReactionsTask reactions_{this};
  bool started_ = false;  // The channel has it.
  // With the poller's ownership held: whether the call has ended, and the
  // waiter of Abandon().
  bool reported_ = false;
  Waiter* waiter_for_end_ = nullptr;
  // The server has sent initial metadata.
  std::atomic<bool> has_initial_metadata_{false};
  bool told_initial_metadata_;  // For RunReactions().
  bool closing_ = false;        // Posted to the poller for the last time.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_REACTOR_STREAM_H_
