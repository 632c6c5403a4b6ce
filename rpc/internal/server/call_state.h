// State of a call that its handler and the server share.

#ifndef VERBENA_RPC_INTERNAL_SERVER_CALL_STATE_H_
#define VERBENA_RPC_INTERNAL_SERVER_CALL_STATE_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "rpc/buffer.h"
#include "rpc/credentials.h"
#include "rpc/internal/call/server_call_state.h"
#include "rpc/internal/stream/protobuf_stream.h"
#include "rpc/metadata.h"
#include "rpc/server_reactor.h"
#include "rpc/support/method.h"
#include "transport/base/mutex.h"
#include "transport/server/server_call.h"

namespace verbena::internal {

// The name, in errors, of the limit on messages that a handler writes.
inline constexpr char kStreamSendLimit[] =
    "what the server's limit (SetMaxSendMessageSize) allows";

// The reactor that ServerContext::DefaultReactor() returns.
class DefaultReactor final : public ServerUnaryReactor {
 public:
  void OnDone() override {}
};

// Tells the handler of one call at a time that nobody waits for its answer any
// more. Thread-safe, but for Reset().
class CancelSignal {
 public:
  // Returns the token of the call, which is made when somebody asks for it.
  std::stop_token token() {
    const base::MutexLock lock(mutex_);
    if (!source_.has_value()) {
      used_.store(true, std::memory_order_relaxed);
      source_.emplace();
      if (given_) source_->request_stop();  // Calls nobody yet.
    }
    return source_->get_token();
  }

  // The call is cancelled. Returns whether there is a token to tell.
  bool Give() {
    const base::MutexLock lock(mutex_);
    used_.store(true, std::memory_order_relaxed);
    given_ = true;
    return source_.has_value();
  }

  // Requests the stop of the token, if there is one: runs its callbacks.
  void Tell() {
    std::optional<std::stop_source> source;
    {
      const base::MutexLock lock(mutex_);
      source = source_;
    }
    if (source.has_value()) source->request_stop();
  }

  // Makes the signal ready for another call.
  void Reset() {
    if (ABSL_PREDICT_TRUE(!used_.load(std::memory_order_relaxed))) return;
    const base::MutexLock lock(mutex_);
    used_.store(false, std::memory_order_relaxed);
    given_ = false;
    source_.reset();
  }

 private:
  std::atomic<bool> used_{false};  // Reset() has something to do.
  base::Mutex mutex_;
  bool given_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<std::stop_source> source_ ABSL_GUARDED_BY(mutex_);
};

// Sends the initial metadata of one call at a time.
class InitialMetadata {
 public:
  // Makes this ready for another call.
  void Reset() {
    if (ABSL_PREDICT_FALSE(!failure_.ok())) failure_ = {};
  }
  // Has the poller send `metadata`. On the thread of the handler.
  void Post(transport::ServerCall& call, const Metadata& metadata);
  // On the poller, when the handler has ended: sends what was posted but not
  // sent, or else `metadata`, unless that is null.
  void Finish(transport::ServerCall& call, const Metadata* metadata);

  // The reason for which they can't be sent; OK if there is none. On the thread
  // of the handler until that has ended.
  const absl::Status& failure() const { return failure_; }

 private:
  // Metadata that the poller sends when it comes to that, or when it ends the
  // call, whatever comes first.
  struct Posted {
    void Send() {
      if (call == nullptr) return;
      std::exchange(call, nullptr)->SendInitialMetadata(std::move(text));
    }
    transport::ServerCall* call = nullptr;
    std::string text;
  };

  // Returns the bytes to send; none, and failure_, if the client does not take
  // so many.
  std::optional<std::string> Text(transport::ServerCall& call,
                                  const Metadata& metadata);

  std::shared_ptr<Posted> posted_;
  absl::Status failure_;
};

// Serves one call of one method at a time. As ServerCallState on any thread
// while the handler runs; the rest on the poller, or as it says.
class CallState final : public ServerCallState {
 public:
  explicit CallState(const Method* method) : registered_(*method) {}

  // Takes metadata and attachment of `call`. Returns what keeps the call from
  // its handler.
  absl::Status Begin(transport::ServerCall* call) {
    call_ = call;
    told_expired_.store(false, std::memory_order_relaxed);
    initial_metadata_.Reset();
    data().Reset(call->deadline());
    if (ABSL_PREDICT_FALSE(!call->attachment().empty())) {
      data().request_attachment = call->TakeAttachment();
    }
    if (ABSL_PREDICT_TRUE(call->metadata().empty() &&
                          !registered_.is_generic())) {
      return absl::OkStatus();
    }
    return TakeMetadata();
  }
  // The context has its messages by `stream`, which is null again before that
  // is gone.
  void set_stream(ProtobufStream* stream) { stream_ = stream; }
  ProtobufStream* stream() const { return stream_; }
  // The connection's AuthContext, changed by the AuthMetadataProcessor. Before
  // the handler runs.
  void set_auth_context(std::shared_ptr<AuthContext> auth_context) {
    auth_context_ = std::move(auth_context);
  }
  // Keeps what the context can still be asked after End().
  void Keep();
  // Returns the call, of which this knows no more.
  transport::ServerCall* End() { return std::exchange(call_, nullptr); }
  // Makes this ready for another call, when nobody asks any more.
  void Reset() { cancel_signal_.Reset(); }

  // Null between calls.
  transport::ServerCall* call() const { return call_; }
  CancelSignal& cancel_signal() { return cancel_signal_; }

  // Returns the call's status from the handler's: DEADLINE_EXCEEDED if the
  // handler was told that the deadline has passed. One that returns for that
  // may do so before the client has looked at its clock: what it returns is not
  // an answer.
  absl::Status Answer(absl::Status status) const {
    if (ABSL_PREDICT_FALSE(told_expired_.load(std::memory_order_relaxed))) {
      return CancelledStatus();
    }
    return status;
  }
  // Returns the status of a call that has been cancelled.
  absl::Status CancelledStatus() const;

  // Before a message of the stream, on the thread that writes it: sends the
  // initial metadata if there are any and they are not sent. After the first
  // message none can be sent.
  void SendInitialMetadataDue() {
    if (data().TakeInitialMetadata() && !data().initial_metadata.empty()) {
      initial_metadata_.Post(*call_, data().initial_metadata);
    }
  }
  // When the handler has ended: sends what was not sent. Returns why that is
  // not possible.
  absl::Status FinishInitialMetadata();
  // See InitialMetadata::failure().
  bool initial_metadata_failed() const {
    return !initial_metadata_.failure().ok();
  }

  // As ServerCallState.
  bool IsCancelled() const override;
  std::stop_token stop_token() override { return cancel_signal_.token(); }
  void SendInitialMetadata() override {
    if (!data().TakeInitialMetadata()) return;
    initial_metadata_.Post(*call_, data().initial_metadata);
  }
  ServerUnaryReactor* DefaultReactor() override {
    return &default_reactor_.emplace();
  }
  const std::string& method() const override {
    return generic_name_.empty() ? registered_.full_name() : generic_name_;
  }
  const std::string& peer() const override {
    return call_ == nullptr ? at_end_.peer : call_->peer();
  }
  const std::string& device() const override {
    return call_ == nullptr ? at_end_.device : call_->device_name();
  }
  std::shared_ptr<const AuthContext> auth_context() const override;
  Buffer AllocateBuffer(size_t bytes) const override {
    return call_ == nullptr ? Buffer::Plain(bytes)
                            : call_->AllocateAttachment(bytes);
  }

 private:
  // Parses the metadata, and takes the method's name out of them.
  absl::Status TakeMetadata();

  const Method& registered_;
  transport::ServerCall* call_ = nullptr;
  ProtobufStream* stream_ = nullptr;
  std::string generic_name_;  // If a generic service is asked; else empty.
  std::shared_ptr<AuthContext> auth_context_;  // Null without a processor.
  CancelSignal cancel_signal_;
  // The handler was told that the deadline has passed.
  mutable std::atomic<bool> told_expired_{false};
  InitialMetadata initial_metadata_;
  std::optional<internal::DefaultReactor> default_reactor_;
  struct {
    bool cancelled = false;
    std::string peer;
    std::string device;
    std::shared_ptr<const AuthContext> auth_context;
  } at_end_;  // By Keep().
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVER_CALL_STATE_H_
