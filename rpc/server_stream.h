// Streaming calls at the server: what handlers read from and write to. They run
// on workers, and may block.
//
// Each is valid until its handler returns. One thread may read while another
// writes, if the handler outlives both. When the handler returns, what it has
// written goes out, and behind it the status.

#ifndef VERBENA_RPC_SERVER_STREAM_H_
#define VERBENA_RPC_SERVER_STREAM_H_

#include "rpc/buffer.h"
#include "rpc/stream.h"

namespace verbena {

// The reader of a handler whose method streams its requests.
template <typename Request>
class ServerReader {
 public:
  // `stream` is the call, or stands for one in a test of a handler.
  explicit ServerReader(MessageReaderWriter* stream) : stream_(stream) {}
  ServerReader(const ServerReader&) = delete;
  ServerReader& operator=(const ServerReader&) = delete;

  // See MessageReaderWriter::Read(). After false, ServerContext::IsCancelled()
  // tells whether the client has sent all, or is gone.
  bool Read(Request* message) { return stream_->Read(message, nullptr); }
  bool Read(Request* message, Buffer* attachment) {
    return stream_->Read(message, attachment);
  }
  // Makes Read() return false, also in a thread that waits in it, so that the
  // handler can return. From any thread.
  void StopReading() { stream_->StopReading(); }

 private:
  MessageReaderWriter* const stream_;
};

// The writer of a handler whose method streams its responses.
template <typename Response>
class ServerWriter {
 public:
  // `stream` is the call, or stands for one in a test of a handler.
  explicit ServerWriter(MessageReaderWriter* stream) : stream_(stream) {}
  ServerWriter(const ServerWriter&) = delete;
  ServerWriter& operator=(const ServerWriter&) = delete;

  // See MessageReaderWriter::Write(). After false the handler should return.
  bool Write(const Response& message, Attachment attachment = {}) {
    return stream_->Write(message, attachment);
  }

 private:
  MessageReaderWriter* const stream_;
};

// The reader and writer of a handler whose method streams both ways.
template <typename Response, typename Request>
class ServerReaderWriter : public ServerReader<Request>,
                           public ServerWriter<Response> {
 public:
  explicit ServerReaderWriter(MessageReaderWriter* stream)
      : ServerReader<Request>(stream), ServerWriter<Response>(stream) {}
};

}  // namespace verbena

#endif  // VERBENA_RPC_SERVER_STREAM_H_
