#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "rpc/buffer.h"
#include "rpc/client_context.h"
#include "rpc/client_stream.h"
#include "tools/load/echo_loop.h"
#include "tools/load/meter.h"
#include "tools/rpc_bench/stream.h"
#include "transport/base/clock.h"
#include "transport/base/limits.h"

namespace verbena::bench {
namespace {

// Bytes that the thread may write before it reads, unless they are of a single
// message. With more, both sides could wait for each other.
constexpr uint64_t kUnderWayBytes = transport::kStreamWindowBytes;

// A blocking stream, whose messages are the calls. A slot is a message that was
// started.
class StreamPipe : public EchoPipe {
 public:
  StreamPipe(Channel& channel, const Case& measured, absl::Duration duration)
      : measured_(measured), check_(measured.validate) {
    context_.set_deadline(
        base::ToWallClock(Schedule(measured, duration).deadline));
    EchoRequest request;
    request.set_payload(Payload(measured.size_bytes));
    // Without --validate, all slots share one payload, which stays cached.
    requests_.assign(measured.validate ? measured.outstanding : 1, request);
    if (!measured.attachment || measured.validate) return;
    beside_ = channel.AllocateBuffer(measured.size_bytes);
    std::memcpy(beside_.data(), request.payload().data(), beside_.size());
  }

  Sample Run(absl::Duration duration) {
    Sample sample = RunEchoes(*this, measured_, duration);
    // The status of the stream counts as an error of its own.
    const absl::Status status = End();
    if (!status.ok() && sample.errors++ == 0) sample.first_error = status;
    return sample;
  }

  void Start(int slot) override { started_.push_back(slot); }

 protected:
  // Ends the stream after the last Poll(), and returns its error, if any.
  virtual absl::Status End() = 0;

  EchoRequest& RequestOf(int slot) {
    return requests_[measured_.validate ? slot : 0];
  }
  // Returns the message to send in `slot`, and the attachment beside it.
  std::pair<const EchoRequest*, Attachment> Next(int slot) {
    EchoRequest& request = RequestOf(slot);
    check_.Stamp(BytesOf(*request.mutable_payload()));
    if (!measured_.attachment) return {&request, {}};
    if (!beside_.empty()) return {&empty_, beside_};
    return {&empty_, BytesOf(std::as_const(request).payload())};
  }
  absl::Status Compare(const EchoReply& reply, const Buffer& attachment,
                       int slot) {
    return check_.Compare(measured_.attachment
                              ? absl::Span<const uint8_t>(attachment.span())
                              : BytesOf(reply.payload()),
                          BytesOf(std::as_const(RequestOf(slot)).payload()));
  }

  const Case measured_;
  ClientContext context_;
  std::deque<int> started_;  // Slots whose messages Poll() has yet to handle.

 private:
  EchoCheck check_;
  const EchoRequest empty_;
  std::vector<EchoRequest> requests_;  // By slot, or one for all slots.
  Buffer beside_;  // The attachment of all messages, if they need not differ.
};

// Echoes come back in order, so a queue of slots tells whose reply was read.
class BidiPipe final : public StreamPipe {
 public:
  BidiPipe(Channel& channel, Echo::Stub& stub, const Case& measured,
           absl::Duration duration)
      : StreamPipe(channel, measured, duration),
        stream_(stub.Chat(&context_)) {}

  absl::Status Poll(Sink& sink, absl::Time /*until*/) override {
    // Writes ahead as far as kUnderWayBytes allows, but always at least one
    // message.
    while (!started_.empty() &&
           (written_.empty() ||
            (written_.size() + 1) * measured_.size_bytes <= kUnderWayBytes)) {
      const int slot = started_.front();
      const auto [request, attachment] = Next(slot);
      if (!stream_->Write(*request, attachment)) return stream_->Finish();
      started_.pop_front();
      written_.push_back(slot);
    }
    if (written_.empty()) return absl::OkStatus();
    if (!stream_->Read(&reply_, &attachment_)) return stream_->Finish();
    const int slot = written_.front();
    written_.pop_front();
    sink.OnEnded(slot, Compare(reply_, attachment_, slot));
    return absl::OkStatus();
  }

 private:
  absl::Status End() override {
    if (!stream_->WritesDone()) return absl::OkStatus();  // Poll() has told.
    return stream_->Finish();
  }

  const std::unique_ptr<ClientReaderWriter<EchoRequest, EchoReply>> stream_;
  EchoReply reply_;
  Buffer attachment_;
  std::deque<int> written_;  // Slots, in order.
};

// The server begins to send at once; Start() only asks for one more read.
class ServerPipe final : public StreamPipe {
 public:
  ServerPipe(Channel& channel, Echo::Stub& stub, const Case& measured,
             absl::Duration duration)
      : StreamPipe(channel, measured, duration) {
    EchoRequest request = RequestOf(0);
    request.set_beside(measured.attachment);
    reader_ = stub.Send(&context_, request);
  }

  absl::Status Poll(Sink& sink, absl::Time /*until*/) override {
    for (const int slot : std::exchange(started_, {})) {
      if (!reader_->Read(&reply_, &attachment_)) return reader_->Finish();
      sink.OnEnded(slot, Compare(reply_, attachment_, 0));
    }
    return absl::OkStatus();
  }

 private:
  // The server goes on until nobody reads.
  absl::Status End() override { return absl::OkStatus(); }

  std::unique_ptr<ClientReader<EchoReply>> reader_;
  EchoReply reply_;
  Buffer attachment_;
};

// Writes as fast as the server's window lets it.
class ClientPipe final : public StreamPipe {
 public:
  ClientPipe(Channel& channel, Echo::Stub& stub, const Case& measured,
             absl::Duration duration)
      : StreamPipe(channel, measured, duration),
        writer_(stub.Receive(&context_, &reply_)) {}

  absl::Status Poll(Sink& sink, absl::Time /*until*/) override {
    for (const int slot : std::exchange(started_, {})) {
      const auto [request, attachment] = Next(slot);
      if (!writer_->Write(*request, attachment)) return writer_->Finish();
      ++written_;
      // A message counts when it was written: the server confirms only their
      // number, at the end.
      sink.OnEnded(slot, absl::OkStatus());
    }
    return absl::OkStatus();
  }

 private:
  absl::Status End() override {
    if (!writer_->WritesDone()) return absl::OkStatus();  // Poll() has told.
    absl::Status status = writer_->Finish();
    if (!status.ok() || reply_.messages() == written_) return status;
    return absl::DataLossError(
        absl::StrCat(reply_.messages(), " messages arrived of ", written_));
  }

  ReceiveReply reply_;
  const std::unique_ptr<ClientWriter<EchoRequest>> writer_;
  uint64_t written_ = 0;
};

}  // namespace

Sample RunStream(Channel& channel, Echo::Stub& stub, const Case& measured,
                 absl::Duration duration) {
  switch (measured.kind) {
    case Kind::kUnary:
      break;
    case Kind::kClient:
      return ClientPipe(channel, stub, measured, duration).Run(duration);
    case Kind::kServer:
      return ServerPipe(channel, stub, measured, duration).Run(duration);
    case Kind::kBidi:
      return BidiPipe(channel, stub, measured, duration).Run(duration);
  }
  return {.errors = 1,
          .first_error = absl::InternalError("a unary call is not a stream")};
}

}  // namespace verbena::bench
