#include "rpc/resolvers/etcd_loop.h"

#include <grpc/grpc.h>
#include <grpc/support/time.h>
#include <grpcpp/alarm.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/channel_arguments.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"
#include "transport/base/status_macros.h"
#include "transport/base/thread_group.h"

namespace verbena::internal {
namespace {

// A timer that is due waits for what has arrived, but not for longer than this.
constexpr absl::Duration kTimerDelayMax = absl::Milliseconds(10);

// HTTP/2 pings on a connection that is silent, and the wait for their answer.
// etcd refuses clients that ping more often than every 5 s.
constexpr int kKeepaliveMillis = 10'000;
constexpr int kKeepaliveTimeoutMillis = 5'000;

// gRPC's own pauses after a connection that failed. Ours are longer: these
// matter when an end point comes back.
constexpr int kReconnectMillis = 100;
constexpr int kReconnectMaxMillis = 1'000;

gpr_timespec ToGrpc(absl::Duration from_now) {
  return gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_nanos(absl::ToInt64Nanoseconds(from_now), GPR_TIMESPAN));
}

absl::Status FromGrpc(const grpc::Status& status) {
  // Both count alike.
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string ToBytes(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  bytes.reserve(buffer.Length());
  for (const grpc::Slice& each : slices) {
    bytes.append(reinterpret_cast<const char*>(each.begin()), each.size());
  }
  return bytes;
}

// The tag of an operation in the completion queue.
class Event {
 public:
  virtual ~Event() = default;
  virtual void OnEvent(bool ok) = 0;
};

// A call of gRPC, which deletes itself when it is over. It may be over later
// than its handle is destroyed: then it is cancelled, and calls nobody.
class Operation : public Event {
 public:
  class Handle final : public EtcdPending {
   public:
    explicit Handle(Operation* operation) : operation_(operation) {
      operation_->handle_ = this;
    }
    ~Handle() override {
      if (operation_ == nullptr) return;
      operation_->handle_ = nullptr;
      operation_->context_.TryCancel();
    }

   private:
    friend class Operation;
    Operation* operation_;
  };

  // `open` counts those that are not over.
  Operation(int& open, const std::string& token) : open_(open) {
    ++open_;
    if (!token.empty()) context_.AddMetadata("token", token);
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation() override {
    --open_;
    if (handle_ != nullptr) handle_->operation_ = nullptr;
  }

 protected:
  grpc::ClientContext& context() { return context_; }
  bool wanted() const { return handle_ != nullptr; }

 private:
  int& open_;
  grpc::ClientContext context_;
  Handle* handle_ = nullptr;
};

class UnaryOperation final : public Operation {
 public:
  UnaryOperation(int& open, const std::string& token,
                 EtcdConnection::OnReply on_reply)
      : Operation(open, token), on_reply_(std::move(on_reply)) {}

  void Start(grpc::GenericStub& stub, grpc::CompletionQueue& queue,
             const char* method, const std::string& request,
             absl::Duration timeout) {
    context().set_deadline(ToGrpc(timeout));
    reader_ =
        stub.PrepareUnaryCall(&context(), method, ToBuffer(request), &queue);
    reader_->StartCall();
    reader_->Finish(&reply_, &status_, static_cast<Event*>(this));
  }

  void OnEvent(bool /*ok*/) override {
    if (wanted() && status_.ok()) {
      on_reply_(ToBytes(reply_));
    } else if (wanted()) {
      on_reply_(FromGrpc(status_));
    }
    delete this;
  }

 private:
  const EtcdConnection::OnReply on_reply_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader_;
  grpc::ByteBuffer reply_;
  grpc::Status status_;
};

// At any time a single operation of the stream is under way.
class StreamOperation final : public Operation {
 public:
  StreamOperation(int& open, const std::string& token,
                  const std::string& request,
                  EtcdConnection::OnMessage on_message,
                  EtcdConnection::OnEnd on_end)
      : Operation(open, token),
        request_(ToBuffer(request)),
        on_message_(std::move(on_message)),
        on_end_(std::move(on_end)) {
    // etcd ends the stream when the end point has lost its leader.
    context().AddMetadata("hasleader", "true");
  }

  void Start(grpc::GenericStub& stub, grpc::CompletionQueue& queue,
             const char* method) {
    stream_ = stub.PrepareCall(&context(), method, &queue);
    stream_->StartCall(tag());
  }

  void OnEvent(bool ok) override {
    if (step_ == Step::kFinish) {
      if (wanted()) on_end_(FromGrpc(status_));
      delete this;
    } else if (!ok) {
      step_ = Step::kFinish;
      stream_->Finish(&status_, tag());
    } else if (step_ == Step::kStart) {
      step_ = Step::kWrite;
      stream_->Write(request_, tag());
    } else {
      if (step_ == Step::kRead && wanted()) on_message_(ToBytes(message_));
      step_ = Step::kRead;
      // Fails at once if the call was cancelled meanwhile.
      stream_->Read(&message_, tag());
    }
  }

 private:
  enum class Step { kStart, kWrite, kRead, kFinish };

  void* tag() { return static_cast<Event*>(this); }

  const grpc::ByteBuffer request_;
  const EtcdConnection::OnMessage on_message_;
  const EtcdConnection::OnEnd on_end_;
  Step step_ = Step::kStart;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::ByteBuffer message_;
  grpc::Status status_;
};

class GrpcConnection final : public EtcdConnection {
 public:
  GrpcConnection(grpc::CompletionQueue& queue, int& open,
                 const std::shared_ptr<grpc::Channel>& channel)
      : queue_(queue), open_(open), stub_(channel) {}

  void set_token(std::string token) override { token_ = std::move(token); }

  std::unique_ptr<EtcdPending> Call(const char* method,
                                    const std::string& request,
                                    absl::Duration timeout,
                                    OnReply on_reply) override {
    auto* const call = new UnaryOperation(open_, token_, std::move(on_reply));
    auto handle = std::make_unique<Operation::Handle>(call);
    call->Start(stub_, queue_, method, request, timeout);
    return handle;
  }

  std::unique_ptr<EtcdPending> Stream(const char* method,
                                      const std::string& request,
                                      OnMessage on_message,
                                      OnEnd on_end) override {
    auto* const call = new StreamOperation(
        open_, token_, request, std::move(on_message), std::move(on_end));
    auto handle = std::make_unique<Operation::Handle>(call);
    call->Start(stub_, queue_, method);
    return handle;
  }

 private:
  grpc::CompletionQueue& queue_;
  int& open_;
  grpc::GenericStub stub_;
  std::string token_;
};

class GrpcLoop final : public EtcdLoop {
 public:
  ~GrpcLoop() override {
    if (runs_) {
      const base::MutexLock lock(mutex_);
      ends_ = true;
      Wake();
    } else {
      EndQueue();
    }
    thread_.Join();
  }

  // REQUIRES: called once, before all else.
  absl::Status Start() {
    const absl::Status started = thread_.Start([this] { Run(); });
    runs_ = started.ok();
    return runs_ ? started : absl::UnavailableError(started.message());
  }

  void Post(absl::AnyInvocable<void()> task) override {
    const base::MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
    Wake();
  }

  std::unique_ptr<EtcdPending> At(absl::Time time,
                                  absl::AnyInvocable<void()> task) override {
    return std::make_unique<Timer>(timers_, time, std::move(task));
  }

  // Connections with equal arguments are one connection below: gRPC shares it.
  std::unique_ptr<EtcdConnection> Connect(
      const std::string& end_point,
      const std::optional<EtcdTls>& tls) override {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMillis);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMillis);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMillis);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMaxMillis);
    arguments.SetMaxReceiveMessageSize(-1);  // As etcd's own client.
    std::shared_ptr<grpc::ChannelCredentials> credentials =
        grpc::InsecureChannelCredentials();
    if (tls.has_value()) {
      credentials =
          grpc::SslCredentials({.pem_root_certs = tls->ca_certificates,
                                .pem_private_key = tls->private_key,
                                .pem_cert_chain = tls->certificate});
    }
    return std::make_unique<GrpcConnection>(
        queue_, open_,
        grpc::CreateCustomChannel(end_point, credentials, arguments));
  }

 private:
  class Timer;
  using Timers = std::multimap<absl::Time, Timer*>;

  class Timer final : public EtcdPending {
   public:
    Timer(Timers& timers, absl::Time time, absl::AnyInvocable<void()> task)
        : timers_(timers), task_(std::move(task)) {
      place_ = timers_.emplace(time, this);
    }
    ~Timer() override {
      if (place_ != timers_.end()) timers_.erase(place_);
    }
    // The task may destroy this.
    void Run() {
      timers_.erase(place_);
      place_ = timers_.end();
      auto task = std::move(task_);
      task();
    }

   private:
    Timers& timers_;
    Timers::iterator place_;  // The end: it has run.
    absl::AnyInvocable<void()> task_;
  };

  // Tells the thread that there are tasks.
  class WakeEvent final : public Event {
   public:
    explicit WakeEvent(GrpcLoop& loop) : loop_(loop) {}
    void OnEvent(bool /*ok*/) override {
      const base::MutexLock lock(loop_.mutex_);
      loop_.wakes_ = false;
    }

   private:
    GrpcLoop& loop_;
  };

  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (wakes_) return;
    wakes_ = true;
    alarm_.Set(&queue_, gpr_now(GPR_CLOCK_MONOTONIC),
               static_cast<Event*>(&wake_event_));
  }

  void Run() {
    for (;;) {
      if (!RunTasks()) break;
      void* tag = nullptr;
      bool ok = false;
      const auto next = queue_.AsyncNext(&tag, &ok, NextTimer());
      absl::Time due = base::Now();
      if (next == grpc::CompletionQueue::GOT_EVENT) {
        static_cast<Event*>(tag)->OnEvent(ok);
        due -= kTimerDelayMax;
      }
      RunTimers(due);
    }
    // Calls that are left have been cancelled, so their events come at once. A
    // stream asks for one more, which a queue that is shut down must not get.
    while (open_ > 0) RunEvent();
    EndQueue();
  }

  // Waits for an event. Returns false if there is none any more.
  bool RunEvent() {
    void* tag = nullptr;
    bool ok = false;
    if (!queue_.Next(&tag, &ok)) return false;
    static_cast<Event*>(tag)->OnEvent(ok);
    return true;
  }

  void EndQueue() {
    queue_.Shutdown();
    while (RunEvent()) {
    }
  }

  // Returns false at the end.
  bool RunTasks() {
    std::vector<absl::AnyInvocable<void()>> tasks;
    bool ends = false;
    {
      const base::MutexLock lock(mutex_);
      tasks.swap(tasks_);
      ends = ends_;
    }
    for (auto& each : tasks) {
      each();
      each = nullptr;  // Not later than the next one.
    }
    return !ends;
  }

  gpr_timespec NextTimer() const {
    if (timers_.empty()) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return ToGrpc(timers_.begin()->first - base::Now());
  }

  void RunTimers(absl::Time until) {
    while (!timers_.empty() && timers_.begin()->first <= until) {
      timers_.begin()->second->Run();
    }
  }

  grpc::CompletionQueue queue_;
  int open_ = 0;       // Operations. Thread only.
  Timers timers_;      // Thread only.
  bool runs_ = false;  // Since Start().

  base::Mutex mutex_;
  std::vector<absl::AnyInvocable<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  bool wakes_ ABSL_GUARDED_BY(mutex_) = false;  // The event is on its way.
  WakeEvent wake_event_{*this};
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mutex_);
  base::ThreadGroup thread_{"verbena-etcd"};
};

// Only those who use the loop keep it.
struct SharedLoop {
  base::Mutex mutex;
  std::weak_ptr<GrpcLoop> loop ABSL_GUARDED_BY(mutex);
};

}  // namespace

absl::StatusOr<std::shared_ptr<EtcdLoop>> EtcdLoop::OfProcess() {
  static SharedLoop& shared = *new SharedLoop;
  const base::MutexLock lock(shared.mutex);
  std::shared_ptr<GrpcLoop> loop = shared.loop.lock();
  if (loop == nullptr) {
    loop = std::make_shared<GrpcLoop>();
    RETURN_IF_ERROR(loop->Start());
    shared.loop = loop;
  }
  return loop;
}

}  // namespace verbena::internal
