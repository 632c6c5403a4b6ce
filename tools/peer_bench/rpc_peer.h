// A peer that is written once for gRPC and for Verbena, whose APIs have the
// same shape. The type `Side` names the parts of one of them.

#ifndef VERBENA_TOOLS_PEER_BENCH_RPC_PEER_H_
#define VERBENA_TOOLS_PEER_BENCH_RPC_PEER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/peer_bench/echo.pb.h"
#include "tools/peer_bench/peer.h"

namespace verbena::peers {

// Handlers that block.
template <typename Side>
class BlockingService final : public Side::Rpc::Service {
 public:
  typename Side::Status Echo(typename Side::ServerContext* /*context*/,
                             const EchoMessage* request,
                             EchoMessage* reply) override {
    reply->set_payload(request->payload());
    return {};
  }
  typename Side::Status Chat(typename Side::ServerContext* /*context*/,
                             typename Side::ReaderWriter* stream) override {
    EchoMessage message;
    while (stream->Read(&message) && stream->Write(message)) {
    }
    return {};
  }
  typename Side::Status Send(typename Side::ServerContext* /*context*/,
                             const EchoMessage* request,
                             typename Side::Writer* writer) override {
    while (writer->Write(*request)) {
    }
    return {};
  }
};

// Sends each message of a stream back.
template <typename Side>
class ChatReactor final : public Side::BidiReactor {
 public:
  ChatReactor() { this->StartRead(&message_); }

  void OnReadDone(bool ok) override {
    if (ok) return this->StartWrite(&message_);
    this->Finish({});
  }
  // If the write failed, the read fails too, and ends the call.
  void OnWriteDone(bool /*ok*/) override { this->StartRead(&message_); }
  void OnDone() override { delete this; }

 private:
  EchoMessage message_;
};

// Sends the request, which lives until OnDone(), until a write fails.
template <typename Side>
class SendReactor final : public Side::WriteReactor {
 public:
  explicit SendReactor(const EchoMessage* message) : message_(message) {
    this->StartWrite(message_);
  }

  void OnWriteDone(bool ok) override {
    if (ok) return this->StartWrite(message_);
    this->Finish({});
  }
  void OnDone() override { delete this; }

 private:
  const EchoMessage* const message_;
};

// Streams by reactors.
template <typename Side>
class ReactorService final : public Side::Rpc::CallbackService {
  typename Side::BidiReactor* Chat(
      typename Side::CallbackContext* /*context*/) override {
    return new ChatReactor<Side>;
  }
  typename Side::WriteReactor* Send(typename Side::CallbackContext* /*context*/,
                                    const EchoMessage* request) override {
    return new SendReactor<Side>(request);
  }
};

// A caller with its own stub, on a channel that other callers may share.
template <typename Side>
class RpcCaller {
 public:
  RpcCaller(const std::shared_ptr<typename Side::Channel>& channel,
            const CallersOptions& options)
      : stub_(Side::Rpc::NewStub(channel)) {
    request_.set_payload(options.payload);
    if (options.kind == "bidi") chat_ = stub_->Chat(&stream_context_);
    if (options.kind == "server") {
      reader_ = stub_->Send(&stream_context_, request_);
    }
  }
  ~RpcCaller() {
    stream_context_.TryCancel();
    EndStream().IgnoreError();
  }

  absl::Status Call() {
    absl::Status status;
    if (chat_ != nullptr) {
      if (!chat_->Write(request_) || !chat_->Read(&reply_)) return EndStream();
    } else if (reader_ != nullptr) {
      if (!reader_->Read(&reply_)) return EndStream();
    } else {
      typename Side::ClientContext context;
      status = Side::ToAbsl(stub_->Echo(&context, request_, &reply_));
    }
    if (status.ok() && reply_.payload().size() != request_.payload().size()) {
      return absl::DataLossError("the reply is not as long as the request");
    }
    return status;
  }

 private:
  // Returns why the stream has ended; never OK.
  absl::Status EndStream() {
    absl::Status status;
    if (chat_ != nullptr) status = Side::ToAbsl(chat_->Finish());
    if (reader_ != nullptr) status = Side::ToAbsl(reader_->Finish());
    chat_.reset();
    reader_.reset();
    return status.ok() ? absl::UnavailableError("the stream has ended")
                       : status;
  }

  const std::unique_ptr<typename Side::Rpc::Stub> stub_;
  EchoMessage request_;
  EchoMessage reply_;
  typename Side::ClientContext stream_context_;
  // The stream whose messages are the calls. Both are null for unary calls.
  std::unique_ptr<typename Side::ClientReaderWriter> chat_;
  std::unique_ptr<typename Side::ClientReader> reader_;
};

template <typename Side>
class RpcPeer : public Peer {
 public:
  absl::StatusOr<std::vector<BlockingCall>> Connect(
      const std::string& address, const CallersOptions& options) override {
    for (int i = 0; i < options.channels; ++i) {
      channels_.push_back(Side::NewChannel(address));
    }
    std::vector<BlockingCall> calls;
    for (int i = 0; i < options.callers; ++i) {
      auto caller = std::make_shared<RpcCaller<Side>>(
          channels_[i % options.channels], options);
      calls.push_back([caller] { return caller->Call(); });
    }
    return calls;
  }

 private:
  std::vector<std::shared_ptr<typename Side::Channel>> channels_;
};

}  // namespace verbena::peers

#endif  // VERBENA_TOOLS_PEER_BENCH_RPC_PEER_H_
