#include "tools/gateway/grpc_to_verbena.h"

#include <grpcpp/support/server_callback.h>

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/buffer.h"
#include "rpc/byte_message.h"
#include "rpc/client_context.h"
#include "rpc/client_reactor.h"
#include "tools/gateway/translate.h"
#include "transport/base/mutex.h"

namespace verbena::gateway {
namespace {

// A call from a gRPC client to Verbena's server. The object itself is gRPC's
// reactor, and its OnDone() deletes it. gRPC calls OnDone() only after
// Finish(), which is called when Verbena's side is over.
//
// Each message is read at one side and written at the other, and only then the
// next one is read. Reactions run on threads of both libraries, so mutex_ is
// held while the next step is chosen. Operations are also started with mutex_
// held, because neither library runs a reaction from inside of these functions.
// Unary calls are made without it: see CallUnary().
class Call final : public grpc::ServerGenericBidiReactor {
 public:
  // Copies metadata and deadline before the stream starts, because a context
  // may not change afterwards. Reads of gRPC begin last, with the phase known.
  Call(const GenericStub& backend, bool wait_for_ready,
       UnaryMethods& unary_methods, grpc::GenericCallbackServerContext* context)
      : backend_(backend),
        unary_methods_(unary_methods),
        context_(context),
        method_(context->method()) {
    for (const auto& [key, value] : FromGrpc(context->client_metadata())) {
      outgoing_.AddMetadata(key, value);
    }
    outgoing_.set_wait_for_ready(wait_for_ready);
    const absl::Time deadline = DeadlineFromGrpc(context->deadline());
    if (deadline != absl::InfiniteFuture()) outgoing_.set_deadline(deadline);
    // A method of which nothing is known is called as a stream: see the header.
    if (!unary_methods_.Has(method_)) {
      SetPhase(Phase::kStream);
      stream_.Start();
    }
    const base::MutexLock lock(mutex_);
    if (phase_ != Phase::kOver) StartRead(&read_);
  }

  // --- As gRPC's reactor ---

  // Ends the requests, or passes one on: into the stream, or as the request of
  // a unary call.
  void OnReadDone(bool ok) override {
    base::MutexLock lock(mutex_);
    if (!ok) {
      sent_all_ = true;
      if (phase_ == Phase::kStream && !stream_over_) EndRequests();
      if (phase_ != Phase::kAwaitRequest) return;
      phase_ = Phase::kOver;
      lock.Unlock();
      return EndWith(refusal_.ok() ? NoRequest() : refusal_);
    }
    ++requests_;
    // A second message of a unary call is dropped, as a gRPC server would do.
    if (phase_ == Phase::kUnary || phase_ == Phase::kOver) return;
    if (phase_ == Phase::kStream && stream_over_) return;
    absl::StatusOr<std::string> bytes = FromGrpc(read_);
    if (bytes.ok()) {
      request_.set_bytes(*std::move(bytes));
    } else {
      Fail(bytes.status());  // The code below goes on until the call ends.
    }
    if (phase_ == Phase::kStream) return stream_.StartWrite(&request_);
    phase_ = Phase::kUnary;
    lock.Unlock();
    CallUnary();
  }

  void OnWriteDone(bool ok) override {
    const base::MutexLock lock(mutex_);
    if (phase_ != Phase::kStream) return;  // Finish() is under way.
    if (!ok) Abandon();
    stream_.StartRead(&reply_, &attachment_);
  }

  void OnCancel() override { outgoing_.TryCancel(); }
  void OnDone() override { delete this; }

 private:
  enum class Phase {
    kAwaitRequest,  // The method is unary, and its request has not come.
    kUnary,         // The unary method is being called.
    kStream,
    kOver,
  };

  // Verbena's side of a method that streams.
  class Stream final : public ClientBidiReactor<ByteMessage, ByteMessage> {
   public:
    explicit Stream(Call* call) : call_(*call) {}

    // The hold lets gRPC's reactions start operations of this stream. OnReply()
    // removes it when no more replies come.
    void Start() {
      call_.backend_.PrepareBidiStreamingCall(&call_.outgoing_, call_.method_,
                                              this);
      AddHold();
      StartRead(&call_.reply_, &call_.attachment_);
      StartCall();
    }

    void OnReadInitialMetadataDone(bool ok) override { call_.OnInitial(ok); }
    void OnReadDone(bool ok) override { call_.OnReply(ok); }
    void OnWriteDone(bool ok) override { call_.OnRequestTaken(ok); }
    void OnDone(const absl::Status& status) override {
      call_.OnStreamDone(status);
    }

   private:
    Call& call_;
  };

  void SetPhase(Phase phase) {
    const base::MutexLock lock(mutex_);
    phase_ = phase;
  }

  absl::Status NoRequest() const {
    return absl::InternalError(absl::StrCat(
        method_, " takes one message, and the client has sent none"));
  }

  // If the client has cancelled, gRPC also reports the end of the requests, and
  // maybe before OnCancel(). The server must not take the requests for
  // complete then, so the call is cancelled first.
  void EndRequests() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (context_->IsCancelled()) outgoing_.TryCancel();
    stream_.StartWritesDone();
  }

  // Drops all further replies, and cancels the call. The gateway still reads
  // replies until the call ends.
  void Abandon() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    abandoned_ = true;
    outgoing_.TryCancel();
  }
  // The call ends with `failure`, whatever its server says.
  void Fail(absl::Status failure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    failure_ = std::move(failure);
    Abandon();
  }

  // Passes initial metadata to gRPC's context.
  absl::Status TakeInitial() {
    const auto pairs = ToGrpc(outgoing_.GetServerInitialMetadata());
    if (!pairs.ok()) return pairs.status();
    for (const auto& [key, value] : *pairs) {
      context_->AddInitialMetadata(key, value);
    }
    return absl::OkStatus();
  }

  // --- Reactions of the stream ---

  void OnInitial(bool ok) {
    const base::MutexLock lock(mutex_);
    if (!ok) return;
    answered_ = true;
    absl::Status taken = TakeInitial();
    if (!taken.ok()) return Fail(std::move(taken));
    StartSendInitialMetadata();
  }

  // Passes a reply on to gRPC's client. OnWriteDone() asks for the next one.
  void OnReply(bool ok) {
    const base::MutexLock lock(mutex_);
    if (!ok) {
      stream_over_ = true;
      return stream_.RemoveHold();
    }
    answered_ = true;
    if (!abandoned_ && !attachment_.empty()) {
      Fail(AttachmentError(method_, "reply", attachment_.size()));
    }
    if (abandoned_) return stream_.StartRead(&reply_, &attachment_);
    write_ = ToGrpc(std::move(*reply_.mutable_bytes()));
    StartWrite(&write_);
  }

  void OnRequestTaken(bool ok) {
    const base::MutexLock lock(mutex_);
    if (ok && !stream_over_) StartRead(&read_);
  }

  // Ends the call, unless the server has refused to stream a unary method. Then
  // the call is made again in that form, at once or when its request comes.
  void OnStreamDone(const absl::Status& status) {
    base::MutexLock lock(mutex_);
    stream_over_ = true;
    // Nothing has been passed on yet, so the call can still be made in the
    // other way.
    if (!answered_ && requests_ <= 1 && failure_.ok() &&
        UnaryMethods::IsUnaryAfterAll(status)) {
      // The server has dropped the first request, but request_ still holds it.
      refusal_ = status;
      if (requests_ == 1) {
        phase_ = Phase::kUnary;
        lock.Unlock();
        return CallUnary();
      }
      if (!sent_all_) {
        phase_ = Phase::kAwaitRequest;
        return;
      }
    }
    phase_ = Phase::kOver;
    lock.Unlock();
    EndWith(status);
  }

  // --- The unary call ---

  // Caller must not hold mutex_. If the process can start no thread, the call
  // ends inside of this function, and the object may be gone when it returns.
  void CallUnary() {
    backend_.UnaryCall(
        &outgoing_, method_, &request_, &reply_,
        [this](const absl::Status& status) { OnUnaryDone(status); });
  }

  // A method that streams by now is forgotten first. An attachment, or metadata
  // that gRPC cannot carry, makes the call fail.
  void OnUnaryDone(absl::Status status) {
    SetPhase(Phase::kOver);
    if (UnaryMethods::StreamsAfterAll(status)) {
      unary_methods_.Remove(method_);
      status = absl::UnavailableError(absl::StrCat(
          method_,
          " was unary and is now a streaming method: the server was replaced. "
          "The call was not processed; make it again"));
    }
    const size_t attached = outgoing_.response_attachment().size();
    if (attached > 0) status = AttachmentError(method_, "reply", attached);
    absl::Status taken = TakeInitial();
    if (status.ok()) status = std::move(taken);
    if (!status.ok()) return EndWith(std::move(status));
    unary_methods_.Add(method_);
    EndWith(absl::OkStatus(), &reply_);
  }

  // Ends gRPC's side, with `reply` if that is not null. The object may be gone
  // when this returns.
  void EndWith(absl::Status status, ByteMessage* reply = nullptr) {
    if (!failure_.ok()) status = failure_;
    const auto pairs = ToGrpc(outgoing_.GetServerTrailingMetadata());
    if (pairs.ok()) {
      for (const auto& [key, value] : *pairs) {
        context_->AddTrailingMetadata(key, value);
      }
    } else if (status.ok()) {
      status = pairs.status();
    }
    if (reply == nullptr || !status.ok()) return Finish(ToGrpc(status));
    write_ = ToGrpc(std::move(*reply->mutable_bytes()));
    StartWriteAndFinish(&write_, grpc::WriteOptions(), grpc::Status::OK);
  }

  const GenericStub& backend_;
  UnaryMethods& unary_methods_;
  grpc::GenericCallbackServerContext* const context_;
  const std::string method_;
  ClientContext outgoing_;
  Stream stream_{this};

  base::Mutex mutex_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kAwaitRequest;
  // Requests that were read.
  int64_t requests_ ABSL_GUARDED_BY(mutex_) = 0;
  // True if the client sends no more requests.
  bool sent_all_ ABSL_GUARDED_BY(mutex_) = false;
  // True if stream_ gives no more replies, or has ended.
  bool stream_over_ ABSL_GUARDED_BY(mutex_) = false;
  // True if initial metadata or a reply has come from the server.
  bool answered_ ABSL_GUARDED_BY(mutex_) = false;
  // True if replies are dropped: see Abandon().
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  // The status by which the server refused to stream a method that is unary.
  absl::Status refusal_;
  // The error with which the gateway itself ends the call.
  absl::Status failure_;

  // Messages on their way. request_ keeps a request until the next one comes,
  // so that a unary call can be made of the first one.
  grpc::ByteBuffer read_;
  ByteMessage request_;
  ByteMessage reply_;
  Buffer attachment_;
  grpc::ByteBuffer write_;
};

}  // namespace

grpc::ServerGenericBidiReactor* GrpcToVerbena::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  return new Call(backend_, wait_for_ready_, unary_methods_, context);
}

}  // namespace verbena::gateway
