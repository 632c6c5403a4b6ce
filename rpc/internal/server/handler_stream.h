// The stream that the handler of a streaming method reads from and writes to.

#ifndef VERBENA_RPC_INTERNAL_SERVER_HANDLER_STREAM_H_
#define VERBENA_RPC_INTERNAL_SERVER_HANDLER_STREAM_H_

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "google/protobuf/message_lite.h"
#include "rpc/buffer.h"
#include "rpc/internal/server/call_state.h"
#include "rpc/internal/stream/protobuf_stream.h"
#include "rpc/stream.h"
#include "transport/base/mutex.h"
#include "transport/server/server_call.h"
#include "transport/streams/message_stream.h"

namespace verbena::internal {

// Has a worker wait for the messages of its call, and for room for its own; not
// beyond the deadline of the call. Owns the call's stream from its making, on
// the poller, to Detach().
class HandlerStream final : public MessageReaderWriter,
                            public transport::MessageStream::Owner {
 public:
  // Messages of more than `max_message_bytes`, attachment included, are not
  // written. Before the first one go the initial metadata of `state`.
  // REQUIRES: the call streams.
  HandlerStream(transport::ServerCall* call, CallState* state,
                uint64_t max_message_bytes);

  // The handler has returned. On the poller.
  void Detach() {
    call_.stream()->set_owner(nullptr);
    state_.set_stream(nullptr);
  }

  // As MessageReaderWriter: see there.
  bool Read(google::protobuf::MessageLite* message,
            Buffer* attachment) override;
  bool Write(const google::protobuf::MessageLite& message,
             Attachment attachment) override;
  void StopReading() override;

  const ProtobufStream& messages() const { return messages_; }

  // As the stream's owner.
  void PostStream() override;
  void OnReadable() override { Notify(&readable_); }
  void OnWritable() override { Notify(&writable_); }

 private:
  void Notify(bool* event);
  // Returns false if the deadline has passed.
  bool Await(bool* event);

  transport::ServerCall& call_;
  CallState& state_;
  ProtobufStream messages_;
  std::atomic<bool> reading_stopped_{false};

  base::Mutex mutex_;
  base::CondVar changed_;
  // Events that no thread has heard of yet.
  bool readable_ ABSL_GUARDED_BY(mutex_) = false;
  bool writable_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVER_HANDLER_STREAM_H_
