// The messages of a streaming call, without their types: the base of the
// readers and writers of client_stream.h and server_stream.h.

#ifndef VERBENA_RPC_STREAM_H_
#define VERBENA_RPC_STREAM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "rpc/buffer.h"

namespace verbena {

// The sides of a call that send any number of messages; the others send one. A
// generic call that streams counts as kBidiStreaming if its kind is not known.
enum class RpcType : uint8_t {
  kUnary,
  kClientStreaming,
  kServerStreaming,
  kBidiStreaming,
};

// A side of a streaming call. One thread may read while another writes; two
// threads must not read, or write, at once.
class MessageReaderWriter {
 public:
  virtual ~MessageReaderWriter() = default;

  // Waits for the next message of the other side and replaces `*message` by it,
  // and `*attachment`, unless that is null, by the bytes beside it (empty if
  // there are none). Returns false when there will be no more: the other side
  // has sent all, or the call has ended.
  virtual bool Read(google::protobuf::MessageLite* message,
                    Buffer* attachment) = 0;

  // Sends `message`, and `attachment` beside it. Returns when both are
  // serialised, or shared (see Attachment), which does not mean that they have
  // arrived; waits while too much is under way that the other side has not
  // read. Returns false if the call has ended: nobody will read the message.
  virtual bool Write(const google::protobuf::MessageLite& message,
                     Attachment attachment) = 0;

  // Makes Read() return false from now on, as if the other side had sent all,
  // also in a thread that waits in it. From any thread. Does nothing unless it
  // is overridden.
  virtual void StopReading() {}
};

// The client's side.
class ClientStream : public MessageReaderWriter {
 public:
  // Waits until the server's initial metadata are in the ClientContext, or it
  // is certain that there are none: a message has come, or the call has ended.
  // For the thread that reads, which need not wait: they are there as well when
  // its first Read() has returned.
  virtual void WaitForInitialMetadata() {}

  // No message of this side will follow. Returns false if the call has ended.
  virtual bool WritesDone() = 0;

  // Drops the messages that were not read, waits until the call has ended, and
  // returns its status. A second call returns the same status. REQUIRES: no
  // other thread reads.
  virtual absl::Status Finish() = 0;
};

}  // namespace verbena

#endif  // VERBENA_RPC_STREAM_H_
