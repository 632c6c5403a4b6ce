#include "tools/gateway/verbena_to_grpc.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/client_callback.h>

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "rpc/buffer.h"
#include "tools/gateway/translate.h"
#include "transport/base/mutex.h"

namespace verbena::gateway {
namespace {

// The call to gRPC's server, as unary calls and streams both need it: its
// context, and the metadata of both directions.
class Outgoing {
 public:
  // `incoming` must outlive it.
  Outgoing(CallbackServerContext* incoming, bool wait_for_ready)
      // gRPC's paths begin with a slash, Verbena's names do not.
      : incoming_(*incoming), method_(absl::StrCat("/", incoming->method())) {
    context_.set_wait_for_ready(wait_for_ready);
  }

  // Copies metadata and deadline into the context. If this fails, the call must
  // not be made.
  absl::Status Prepare() {
    const auto pairs = ToGrpc(incoming_.client_metadata());
    if (!pairs.ok()) return pairs.status();
    for (const auto& [key, value] : *pairs) context_.AddMetadata(key, value);
    const absl::Time deadline = incoming_.deadline();
    if (deadline != absl::InfiniteFuture()) {
      context_.set_deadline(absl::ToChronoTime(deadline));
    }
    const size_t attached = incoming_.request_attachment().size();
    return attached == 0 ? absl::OkStatus()
                         : AttachmentError(method_, "request", attached);
  }

  void TakeInitial() {
    for (const auto& [key, value] :
         FromGrpc(context_.GetServerInitialMetadata())) {
      incoming_.AddInitialMetadata(key, value);
    }
  }
  void TakeTrailing() {
    for (const auto& [key, value] :
         FromGrpc(context_.GetServerTrailingMetadata())) {
      incoming_.AddTrailingMetadata(key, value);
    }
  }

  const std::string& method() const { return method_; }
  grpc::ClientContext* context() { return &context_; }

 private:
  CallbackServerContext& incoming_;
  const std::string method_;
  grpc::ClientContext context_;
};

class UnaryCall final : public ServerUnaryReactor {
 public:
  UnaryCall(grpc::GenericStub& backend, bool wait_for_ready,
            CallbackServerContext* context, const ByteMessage& request,
            ByteMessage* response)
      : outgoing_(context, wait_for_ready), response_(*response) {
    absl::Status prepared = outgoing_.Prepare();
    if (!prepared.ok()) {
      Finish(std::move(prepared));
      return;
    }
    request_ = ToGrpc(request.bytes());
    backend.UnaryCall(outgoing_.context(), outgoing_.method(), {}, &request_,
                      &reply_,
                      [this](const grpc::Status& status) { End(status); });
  }

  void OnCancel() override { outgoing_.context()->TryCancel(); }
  void OnDone() override { delete this; }

 private:
  // Metadata are passed on whatever the status is, because errors have some as
  // well.
  void End(const grpc::Status& grpc_status) {
    absl::Status status = FromGrpc(grpc_status);
    if (status.ok()) {
      absl::StatusOr<std::string> bytes = FromGrpc(reply_);
      status = bytes.status();
      if (bytes.ok()) response_.set_bytes(*std::move(bytes));
    }
    outgoing_.TakeInitial();
    outgoing_.TakeTrailing();
    Finish(std::move(status));
  }

  Outgoing outgoing_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
  ByteMessage& response_;
};

// A streaming call from a Verbena client to gRPC's server. The object itself is
// Verbena's reactor, and it calls Finish() when gRPC's side has ended. The
// class Call of grpc_to_verbena.cc explains the order of reads and writes.
class StreamCall final : public ServerBidiReactor<ByteMessage, ByteMessage> {
 public:
  StreamCall(grpc::GenericStub& backend, bool wait_for_ready,
             CallbackServerContext* context)
      : outgoing_(context, wait_for_ready) {
    absl::Status prepared = outgoing_.Prepare();
    if (!prepared.ok()) {
      Finish(std::move(prepared));
      return;
    }
    const base::MutexLock lock(mutex_);
    StartRead(&request_, &attachment_);
    stream_.Start(backend);
  }

  // --- As Verbena's reactor ---

  // Passes a request on to gRPC's server. OnRequestTaken() asks for the next
  // one.
  void OnReadDone(bool ok) override {
    const base::MutexLock lock(mutex_);
    // Writes would fail, and OnStreamDone() ends the call.
    if (stream_over_) return;
    // If the client has cancelled, OnCancel() was called before.
    if (!ok) return stream_.StartWritesDone();
    if (!attachment_.empty()) {
      failure_ =
          AttachmentError(outgoing_.method(), "request", attachment_.size());
      return outgoing_.context()->TryCancel();
    }
    write_ = ToGrpc(std::move(*request_.mutable_bytes()));
    stream_.StartWrite(&write_);
  }

  void OnWriteDone(bool ok) override {
    if (!ok) outgoing_.context()->TryCancel();
    const base::MutexLock lock(mutex_);
    stream_.StartRead(&read_);
  }

  void OnCancel() override { outgoing_.context()->TryCancel(); }
  void OnDone() override { delete this; }

 private:
  // gRPC's side.
  class Stream final
      : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
   public:
    explicit Stream(StreamCall* call) : call_(*call) {}

    void Start(grpc::GenericStub& backend) {
      backend.PrepareBidiStreamingCall(call_.outgoing_.context(),
                                       call_.outgoing_.method(), {}, this);
      // The hold keeps OnDone() back until OnReply() has learned that no reply
      // follows.
      AddHold();
      StartRead(&call_.read_);
      StartCall();
    }

    void OnReadInitialMetadataDone(bool ok) override { call_.OnInitial(ok); }
    void OnReadDone(bool ok) override { call_.OnReply(ok); }
    void OnWriteDone(bool ok) override { call_.OnRequestTaken(ok); }
    void OnDone(const grpc::Status& status) override {
      call_.OnStreamDone(status);
    }

   private:
    StreamCall& call_;
  };

  // gRPC may call this before the first OnReply() or after it. A reply that
  // comes first waits here, because initial metadata must go before it.
  void OnInitial(bool ok) {
    const base::MutexLock lock(mutex_);
    initial_done_ = true;
    // gRPC reports no initial metadata if the call failed before they came.
    if (ok) {
      outgoing_.TakeInitial();
      StartSendInitialMetadata();
    }
    if (reply_waits_) StartWrite(&reply_);
  }

  // Passes a reply on, or keeps it until the initial metadata have gone.
  void OnReply(bool ok) {
    const base::MutexLock lock(mutex_);
    if (!ok) {
      stream_over_ = true;
      return stream_.RemoveHold();
    }
    absl::StatusOr<std::string> bytes = FromGrpc(read_);
    if (!bytes.ok()) {
      failure_ = bytes.status();
      outgoing_.context()->TryCancel();
      return stream_.StartRead(&read_);
    }
    reply_.set_bytes(*std::move(bytes));
    reply_waits_ = !initial_done_;
    if (!reply_waits_) StartWrite(&reply_);
  }

  void OnRequestTaken(bool ok) {
    const base::MutexLock lock(mutex_);
    if (ok && !stream_over_) StartRead(&request_, &attachment_);
  }

  void OnStreamDone(const grpc::Status& grpc_status) {
    outgoing_.TakeTrailing();
    absl::Status status = FromGrpc(grpc_status);
    {
      const base::MutexLock lock(mutex_);
      if (!failure_.ok()) status = failure_;
    }
    Finish(std::move(status));
  }

  Outgoing outgoing_;
  Stream stream_{this};

  base::Mutex mutex_;
  bool stream_over_ ABSL_GUARDED_BY(mutex_) = false;
  bool initial_done_ ABSL_GUARDED_BY(mutex_) = false;
  // True if reply_ waits until the initial metadata have come.
  bool reply_waits_ ABSL_GUARDED_BY(mutex_) = false;
  // The error with which the gateway itself ends the call.
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);

  // Messages on their way.
  ByteMessage request_;
  Buffer attachment_;
  grpc::ByteBuffer write_;
  grpc::ByteBuffer read_;
  ByteMessage reply_;
};

}  // namespace

ServerUnaryReactor* VerbenaToGrpc::CreateUnaryReactor(
    CallbackServerContext* context, const ByteMessage* request,
    ByteMessage* response) {
  return new UnaryCall(backend_, wait_for_ready_, context, *request, response);
}

ServerBidiReactor<ByteMessage, ByteMessage>* VerbenaToGrpc::CreateReactor(
    CallbackServerContext* context) {
  return new StreamCall(backend_, wait_for_ready_, context);
}

}  // namespace verbena::gateway
