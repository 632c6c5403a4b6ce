// A streaming call of a client, for threads that may block.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_BLOCKING_STREAM_H_
#define VERBENA_RPC_INTERNAL_CLIENT_BLOCKING_STREAM_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "google/protobuf/message_lite.h"
#include "rpc/buffer.h"
#include "rpc/client_context.h"
#include "rpc/internal/client/stream_call.h"
#include "rpc/internal/client/waiters.h"
#include "rpc/stream.h"
#include "transport/polling/task.h"

namespace verbena::internal {

// A thread that reads or writes does most of it without the poller's ownership.
// It takes the ownership to send what it has written, and to poll while it
// waits, as the thread of a unary call does.
//
// While something is to be sent and nobody waits for it, the call is in the
// background, and the channel's background thread polls. Messages that arrive
// are handled when a thread reads, or when another call has the poller polled.
class BlockingStream final : public StreamCall, public ClientStream {
 public:
  // Starts the call. `owner` keeps the channel, and is released when the call
  // has ended.
  BlockingStream(ChannelImpl* channel, std::shared_ptr<const void> owner,
                 const char* method_name, uint64_t method_id, RpcType type,
                 ClientContext* context);
  // Cancels the call unless it was finished.
  ~BlockingStream() override;

  // As ClientStream: see there.
  bool Read(google::protobuf::MessageLite* message,
            Buffer* attachment) override;
  bool Write(const google::protobuf::MessageLite& message,
             Attachment attachment) override;
  bool WritesDone() override;
  absl::Status Finish() override;
  void WaitForInitialMetadata() override;

  // As the transport's call.
  absl::Status OnInitialMetadata(absl::Span<const uint8_t> metadata) override;

  // As OpenCall.
  void Report() override;

  // As the stream's owner.
  void OnReadable() override { Notify(&readable_); }
  void OnWritable() override { Notify(&writable_); }
  void OnPending(bool pending) override;

 private:
  // Something that a thread of the user's waits for. Touched only with the
  // ownership held.
  struct Event {
    bool happened = false;     // No thread has heard of it.
    Waiter* waiter = nullptr;  // The thread that waits for it.
  };
  // Waits for an event, on the stack of the thread that waits.
  class Wait final : public transport::Task {
   public:
    Wait(BlockingStream* call, Event* event) : call_(call), event_(event) {}
    void Run() override;
    Waiter* waiter() { return &waiter_; }

   private:
    BlockingStream* const call_;
    Event* const event_;
    Waiter waiter_;
  };

  void DropUnread();
  void Await(Event* event);
  void Notify(Event* event);

  std::atomic<bool> has_initial_metadata_{false};
  Event readable_;
  Event writable_;
  Event ended_;
  const bool started_;     // It was given to the channel.
  bool finished_ = false;  // Finish() has returned `status_`.
  absl::Status status_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_BLOCKING_STREAM_H_
