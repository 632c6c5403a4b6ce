// A stream of protobuf messages, at either end of a call.

#ifndef VERBENA_RPC_INTERNAL_STREAM_PROTOBUF_STREAM_H_
#define VERBENA_RPC_INTERNAL_STREAM_PROTOBUF_STREAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "rpc/buffer.h"
#include "rpc/internal/metrics/method_counters.h"
#include "rpc/internal/stream/message_hooks.h"
#include "rpc/support/stream_reactor.h"
#include "transport/streams/message_stream.h"

namespace verbena::internal {

// Reads and writes the messages of a transport::MessageStream, and never waits.
// As there, one thread may read while another writes.
class ProtobufStream {
 public:
  using Result = transport::MessageStream::Result;
  // Makes the Buffer that an attachment is copied to, or a long message written
  // to; the latter may be empty if there is no memory.
  using Allocate = absl::FunctionRef<Buffer(size_t)>;

  // Converts `result` to the type that reactors use.
  static OperationNow AsOperation(Result result) {
    return result == Result::kDone   ? OperationNow::kDone
           : result == Result::kWait ? OperationNow::kMustWait
                                     : OperationNow::kEnded;
  }

  // Messages of more than `max_message_bytes`, attachment included, are not
  // written; `limit_name` says in the error whose limit that is. `messages`
  // must outlive this.
  ProtobufStream(transport::MessageStream* messages, uint64_t max_message_bytes,
                 const char* limit_name)
      : messages_(*messages),
        max_message_bytes_(max_message_bytes),
        limit_name_(limit_name) {}
  ProtobufStream(const ProtobufStream&) = delete;
  ProtobufStream& operator=(const ProtobufStream&) = delete;

  // Has `hooks`, unless that is null, told of each message. Before the first.
  void set_hooks(MessageHooks* hooks) { hooks_ = hooks; }

  // See MessageStream::Read() and Write(). kOver also when a message can't be
  // parsed or sent: then the stream has failed, and the call is to be ended.
  // `attachment` may be null.
  Result Read(google::protobuf::MessageLite* message, Buffer* attachment,
              Allocate allocate);
  // The two halves of Read(): takes the next message as it came, and parses it.
  // Another thread may parse. REQUIRES: every message that was taken is parsed
  // before the next one is taken.
  Result Take(transport::MessageStream::Message* read);
  Result Parse(const transport::MessageStream::Message& read,
               google::protobuf::MessageLite* message, Buffer* attachment,
               Allocate allocate);
  // No message is read any more, for that reason. Returns kOver.
  Result FailRead(absl::Status status);
  Result Write(const google::protobuf::MessageLite& message,
               Attachment attachment, Allocate allocate);
  // Reads the next message and drops it. The hooks are not told of it.
  Result Skip();

  // The messages that were read and written so far. Any thread.
  const StreamCount& read_count() const { return read_count_; }
  const StreamCount& write_count() const { return write_count_; }

  // Whether a message could not be read or written, through no fault of the
  // connection: then none is any more. From any thread.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // The reason; OK if there is none. Only when nobody reads or writes any more.
  const absl::Status& failure() const {
    return write_failure_.ok() ? read_failure_ : write_failure_;
  }

 private:
  // Takes that of a message that was read over, or copies it.
  static void TakeAttachment(const transport::MessageStream::Message& read,
                             Buffer* attachment, Allocate allocate);
  // Keeps the status in `*failure`.
  Result Fail(absl::Status* failure, absl::Status status);

  transport::MessageStream& messages_;
  const uint64_t max_message_bytes_;
  const char* const limit_name_;
  MessageHooks* hooks_ = nullptr;
  // The hooks know of the message that is being written. The writer's own.
  bool told_of_message_ = false;
  std::atomic<bool> failed_{false};
  StreamCount read_count_;
  StreamCount write_count_;
  absl::Status read_failure_;   // The reader's own.
  absl::Status write_failure_;  // The writer's own.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_STREAM_PROTOBUF_STREAM_H_
