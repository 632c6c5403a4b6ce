// Streaming calls at the client, for threads that may block.
//
//   auto stream = stub->Chat(&context);
//   stream->Write(question);
//   while (stream->Read(&answer)) ...
//   stream->WritesDone();
//   absl::Status status = stream->Finish();
//
// Each object is one call. The context must outlive it. One thread may read
// while another writes. An object that is destroyed before Finish() cancels its
// call. What has been written goes out at once, as far as the connection and
// the reader at the other end allow; the rest follows by itself.

#ifndef VERBENA_RPC_CLIENT_STREAM_H_
#define VERBENA_RPC_CLIENT_STREAM_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "rpc/buffer.h"
#include "rpc/stream.h"

namespace verbena {

// The client of a method that streams its responses.
template <typename Response>
class ClientReader {
 public:
  // `stream` is the call, or stands for one in a test.
  explicit ClientReader(std::unique_ptr<ClientStream> stream)
      : stream_(std::move(stream)) {}

  // See MessageReaderWriter::Read().
  bool Read(Response* message) { return stream_->Read(message, nullptr); }
  bool Read(Response* message, Buffer* attachment) {
    return stream_->Read(message, attachment);
  }

  // See ClientStream::WaitForInitialMetadata().
  void WaitForInitialMetadata() { stream_->WaitForInitialMetadata(); }

  // See ClientStream::Finish().
  absl::Status Finish() { return stream_->Finish(); }

 protected:
  ClientStream& stream() { return *stream_; }

 private:
  const std::unique_ptr<ClientStream> stream_;
};

// The client of a method that streams its requests.
template <typename Request>
class ClientWriter {
 public:
  // `stream` is the call, or stands for one in a test. `*response` is what the
  // server answered when Finish() has returned OK.
  ClientWriter(std::unique_ptr<ClientStream> stream,
               google::protobuf::MessageLite* response)
      : stream_(std::move(stream)), response_(response) {}

  // See MessageReaderWriter::Write().
  bool Write(const Request& message, Attachment attachment = {}) {
    return stream_->Write(message, attachment);
  }

  // See ClientStream::WaitForInitialMetadata().
  void WaitForInitialMetadata() { stream_->WaitForInitialMetadata(); }

  // See ClientStream::WritesDone().
  bool WritesDone() { return stream_->WritesDone(); }

  // Waits for the response, and for the end of the call. No message follows.
  absl::Status Finish() {
    stream_->WritesDone();
    if (!answered_) answered_ = stream_->Read(response_, nullptr);
    absl::Status status = stream_->Finish();
    if (status.ok() && !answered_) {
      return absl::InternalError("the server sent no response");
    }
    return status;
  }

 private:
  const std::unique_ptr<ClientStream> stream_;
  google::protobuf::MessageLite* const response_;
  bool answered_ = false;  // *response_ is the server's.
};

// The client of a method that streams both ways.
template <typename Request, typename Response>
class ClientReaderWriter : public ClientReader<Response> {
 public:
  using ClientReader<Response>::ClientReader;

  // See MessageReaderWriter::Write().
  bool Write(const Request& message, Attachment attachment = {}) {
    return this->stream().Write(message, attachment);
  }
  // See ClientStream::WritesDone().
  bool WritesDone() { return this->stream().WritesDone(); }
};

}  // namespace verbena

#endif  // VERBENA_RPC_CLIENT_STREAM_H_
