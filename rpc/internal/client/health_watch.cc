#include "rpc/internal/client/health_watch.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/lite/health.pb.h"
#include "proto/method_hash.h"
#include "rpc/internal/codec/method_name.h"
#include "rpc/internal/codec/protobuf_codec.h"
#include "rpc/internal/codec/status_text.h"
#include "transport/base/clock.h"
#include "transport/base/log.h"
#include "transport/client/client_call.h"
#include "transport/polling/task.h"
#include "transport/streams/message_stream.h"

namespace verbena::internal {
namespace {

using transport::ClientConnection;

constexpr char kMethod[] = "grpc.health.v1.Health/Watch";

// The pauses between calls that fail.
constexpr absl::Duration kInitialBackoff = absl::Seconds(1);
constexpr absl::Duration kMaxBackoff = absl::Minutes(2);

// An answer is some bytes, and so may be what later versions add to it.
constexpr uint64_t kMaxAnswerBytes = 4096;

absl::Status Unhealthy(absl::string_view server, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat(server, " is not healthy: ", why));
}

}  // namespace

// A call of Watch. Destroys itself when it has ended and is in no queue.
class HealthWatch::Call final : public transport::ClientCall,
                                private transport::MessageStream::Owner,
                                private transport::Task {
 public:
  Call(HealthWatch* watch, ClientConnection* connection)
      : poller_(watch->poller_),
        watch_(watch),
        connection_(*connection),
        sends_name_(connection->wants_method_names()) {
    set_stream(&messages_);
    request_.method_id = MethodHash(kMethod);
    if (sends_name_) request_.metadata_bytes = MethodNameBytes(kMethod);
  }

  void Start(const std::string& service) {
    lite::HealthCheckRequest request;
    request.set_service(service);
    const uint64_t bytes = request.ByteSizeLong();
    held_ = true;
    connection_.Start(this);
    messages_.Write(
        bytes, {}, nullptr, [](size_t) { return transport::Buffer(); },
        [&](uint8_t* out) { WriteMessage(request, bytes, out); });
    messages_.EndWrites();
    held_ = false;
    DestroyIfOver();
  }

  // Nobody wants to hear of it any more.
  void Abandon() {
    watch_ = nullptr;
    connection_.Cancel(this, absl::CancelledError("the watch is over"));
  }

 private:
  ~Call() = default;

  // As ClientCall.
  void WriteRequest(uint8_t* out) override {
    if (sends_name_) {
      WriteMethodName(kMethod, out, out + request_.metadata_bytes);
    }
  }
  void OnResponse(const transport::CallResponse& response) override {
    const absl::StatusCode code = KnownCode(response.code);
    const absl::string_view text(
        reinterpret_cast<const char*>(response.status_message.data()),
        response.status_message.size());
    End(code == absl::StatusCode::kOk
            ? absl::UnavailableError("the server has ended the watch")
            : absl::Status(code, text));
  }
  void OnFailed(const absl::Status& status) override { End(status); }

  // As the stream's owner.
  void PostStream() override {
    stream_posted_ = true;
    Post();
  }
  void OnReadable() override { Post(); }
  void OnWritable() override {}

  void Post() {
    if (!std::exchange(posted_, true)) poller_.PostFromOutside(this);
  }
  // As Task.
  void Run() override {
    posted_ = false;
    held_ = true;
    if (std::exchange(stream_posted_, false)) messages_.Run();
    if (watch_ != nullptr) Read();
    held_ = false;
    DestroyIfOver();
  }

  // Only the last answer counts.
  void Read() {
    transport::MessageStream::Message message;
    bool answered = false;
    lite::HealthCheckResponse answer;
    while (messages_.Read(&message) == transport::StreamResult::kDone) {
      const absl::Status parsed = ParseMessage(message.message, &answer);
      // Ends this call, and tells the watch.
      if (!parsed.ok()) return connection_.Cancel(this, parsed);
      answered = true;
    }
    if (!answered) return;
    const auto status = answer.status();
    if (status == lite::HealthCheckResponse::SERVING) {
      watch_->OnAnswer(absl::OkStatus());
    } else {
      watch_->OnAnswer(Unhealthy(
          watch_->server_,
          absl::StrCat("the status of \"", watch_->service_, "\" is ",
                       lite::HealthCheckResponse::ServingStatus_Name(status))));
    }
  }

  void End(const absl::Status& status) {
    over_ = true;
    messages_.End();
    HealthWatch* const watch = std::exchange(watch_, nullptr);
    if (watch != nullptr) watch->OnEnd(status);
    DestroyIfOver();
  }
  void DestroyIfOver() {
    if (over_ && !posted_ && !held_) delete this;
  }

  SharedPoller& poller_;
  HealthWatch* watch_;  // Null if it does not want to hear any more.
  ClientConnection& connection_;
  const bool sends_name_;
  transport::MessageStream messages_{this, kMaxAnswerBytes,
                                     "what a health answer may have",
                                     /*marks_end=*/true};
  bool stream_posted_ = false;  // messages_.Run() is wanted.
  bool posted_ = false;
  bool over_ = false;
  bool held_ = false;  // Start() or Run() uses it.
};

HealthWatch::HealthWatch(SharedPoller* poller, std::string server,
                         std::string service, std::function<void()> on_change)
    : poller_(*poller),
      server_(std::move(server)),
      service_(std::move(service)),
      on_change_(std::move(on_change)),
      timer_([this](absl::Time /*now*/) { Ask(); }),
      backoff_(kInitialBackoff, kMaxBackoff, poller->NewSeed()) {}

HealthWatch::~HealthWatch() = default;

// A new connection may lead to another process.
void HealthWatch::Follow(ClientConnection* connection) {
  if (connection == connection_) return;
  if (call_ != nullptr) std::exchange(call_, nullptr)->Abandon();
  poller_.CancelTimer(&timer_);
  connection_ = connection;
  backoff_.Reset();
  SetStatus(Unhealthy(server_, "it has not said yet whether it is"),
            /*pending=*/connection_ != nullptr);
  Ask();
}

void HealthWatch::Ask() {
  if (connection_ == nullptr || call_ != nullptr) return;
  // The watch would be the only call, for ever.
  if (connection_->max_open_calls() < 2) {
    return TakeForHealthy("allows only one call of a connection at once");
  }
  call_ = new Call(this, connection_);
  call_->Start(service_);
}

void HealthWatch::OnAnswer(absl::Status status) {
  backoff_.Reset();
  SetStatus(std::move(status), /*pending=*/false);
}

// A server that can't be asked is taken for healthy, for as long as it is
// connected. The connection may be lost as well; the owner hears of that.
void HealthWatch::OnEnd(const absl::Status& status) {
  call_ = nullptr;
  if (status.code() == absl::StatusCode::kUnimplemented) {
    return TakeForHealthy("has no grpc.health.v1.Health");
  }
  SetStatus(Unhealthy(server_, status.message()), /*pending=*/false);
  poller_.LowerTimer(
      &timer_, base::Now() + backoff_.Next(
                                 /*was_cheap=*/false, absl::ZeroDuration()));
}

void HealthWatch::TakeForHealthy(absl::string_view why) {
  base::Log::OfProcess().Write(
      LogSeverity::kWarning,
      absl::StrCat(server_, " ", why,
                   ", and is taken for healthy, which "
                   "healthCheckConfig would have it asked"));
  SetStatus(absl::OkStatus(), /*pending=*/false);
}

void HealthWatch::SetStatus(absl::Status status, bool pending) {
  if (pending != pending_) {
    pending_ = pending;
    pending ? poller_.AddPending() : poller_.RemovePending();
  } else if (status == status_) {
    return;
  }
  status_ = std::move(status);
  on_change_();
}

}  // namespace verbena::internal
