#include "tests/integration/cancellation_fixture.h"

#include <stop_token>
#include <utility>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/integration/streaming_fixture.h"
#include "tests/integration/test_service.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/base/status_macros.h"
#include "transport/memory/pool_core.h"

namespace verbena::end_to_end {

// Counts a handler as long as it runs.
class Handlers::Visit {
 public:
  explicit Visit(Handlers* handlers) : handlers_(*handlers) {
    const base::MutexLock lock(handlers_.mutex_);
    ++handlers_.running_;
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  ~Visit() {
    const base::MutexLock lock(handlers_.mutex_);
    --handlers_.running_;
    handlers_.changed_.NotifyAll();
  }

 private:
  Handlers& handlers_;
};

class Handlers::EchoService final : public EndToEnd::Service {
 public:
  explicit EchoService(Handlers* handlers) : handlers_(*handlers) {}

  absl::Status Echo(ServerContext* context, const EchoRequest* request,
                    EchoReply* reply) override {
    const Visit visit(&handlers_);
    RETURN_IF_ERROR(handlers_.Reach(Place::kEntered, context));
    reply->set_payload(request->payload());
    context->set_response_attachment(context->TakeRequestAttachment());
    return handlers_.Reach(Place::kReplying, context);
  }

 private:
  Handlers& handlers_;
};

class Handlers::Streams final : public StreamService::Service {
 public:
  explicit Streams(Handlers* handlers) : handlers_(*handlers) {}

  absl::Status List(ServerContext* context, const ListRequest* /*request*/,
                    ServerWriter<Item>* writer) override {
    const Visit visit(&handlers_);
    RETURN_IF_ERROR(handlers_.Reach(Place::kEntered, context));
    Item item;
    item.set_payload(handlers_.payload_);
    for (uint64_t i = 0; i < kMessages; ++i) {
      RETURN_IF_ERROR(ReachOnTheWay(i, context));
      if (!writer->Write(item, Bytes(handlers_.attachment_))) break;
    }
    return absl::OkStatus();
  }

  absl::Status Record(ServerContext* context, ServerReader<Item>* reader,
                      Summary* response) override {
    const Visit visit(&handlers_);
    RETURN_IF_ERROR(handlers_.Reach(Place::kEntered, context));
    Item item;
    Buffer attachment;
    uint64_t read = 0;
    for (; reader->Read(&item, &attachment); ++read) {
      RETURN_IF_ERROR(ReachOnTheWay(read, context));
    }
    response->set_count(read);
    return absl::OkStatus();
  }

  absl::Status Chat(ServerContext* context,
                    ServerReaderWriter<Item, Item>* stream) override {
    const Visit visit(&handlers_);
    RETURN_IF_ERROR(handlers_.Reach(Place::kEntered, context));
    Item item;
    Buffer attachment;
    for (uint64_t i = 0; stream->Read(&item, &attachment); ++i) {
      RETURN_IF_ERROR(ReachOnTheWay(i, context));
      if (!stream->Write(item, attachment.span())) break;
    }
    return absl::OkStatus();
  }

 private:
  // Called when message number `message` was read, or is about to be written.
  absl::Status ReachOnTheWay(uint64_t message, ServerContext* context) {
    if (message == kMessages / 2) {
      return handlers_.Reach(Place::kMidway, context);
    }
    if (message == kMessages - 1) {
      return handlers_.Reach(Place::kReplying, context);
    }
    return absl::OkStatus();
  }

  Handlers& handlers_;
};

Handlers::Handlers(const Message& message)
    : payload_(Pattern(message.payload_bytes, 1)),
      attachment_(Pattern(message.attachment_bytes, 2)),
      echo_(std::make_unique<EchoService>(this)),
      streams_(std::make_unique<Streams>(this)) {}

void Handlers::Register(ServerBuilder* builder) {
  builder->RegisterService(echo_.get()).RegisterService(streams_.get());
}

void Handlers::Play(const Script& script) {
  const base::MutexLock lock(mutex_);
  script_ = script;
  let_go_ = false;
  reached_ = 0;
}

absl::Status Handlers::Reach(Place place, ServerContext* context) {
  // Declared before the lock, because what it calls may still wait for that.
  const std::stop_token cancelled = context->stop_token();
  const std::stop_callback wake(cancelled, [this] {
    const base::MutexLock lock(mutex_);
    changed_.NotifyAll();
  });
  const base::MutexLock lock(mutex_);
  if (probe_.empty()) probe_ = context->AllocateBuffer(1);
  if (place != script_.place) return absl::OkStatus();
  ++reached_;
  changed_.NotifyAll();
  if (script_.fails) return absl::AbortedError("enough");
  while (script_.holds && !let_go_ && !cancelled.stop_requested()) {
    changed_.Wait(mutex_);
  }
  return absl::OkStatus();
}

void Handlers::AwaitReached(int handlers) {
  const absl::Time deadline = base::Now() + absl::Minutes(2);
  const base::MutexLock lock(mutex_);
  while (reached_ < handlers && changed_.WaitUntil(mutex_, deadline)) {
  }
  EXPECT_GE(reached_, handlers) << "handlers are missing";
}

void Handlers::LetGo() {
  const base::MutexLock lock(mutex_);
  let_go_ = true;
  changed_.NotifyAll();
}

void Handlers::AwaitIdle() {
  const absl::Time deadline = base::Now() + absl::Minutes(2);
  const base::MutexLock lock(mutex_);
  while (running_ > 0 && changed_.WaitUntil(mutex_, deadline)) {
  }
  EXPECT_EQ(running_, 0) << "handlers have not returned";
}

uint64_t Handlers::allocated_bytes() {
  const base::MutexLock lock(mutex_);
  return AllocatedBeside(probe_);
}

uint64_t AllocatedBeside(const Buffer& probe) {
  const auto* const pool =
      dynamic_cast<const transport::PoolCore*>(probe.owner());
  CHECK(pool != nullptr) << "the probe is plain memory";
  return pool->allocated_bytes() - probe.room();
}

namespace {

class UnaryCall final : public AnyCall {
 public:
  explicit UnaryCall(const Message& message)
      : attachment_(Pattern(message.attachment_bytes, 2)) {
    request_.set_payload(Pattern(message.payload_bytes, 1));
    context_.set_request_attachment(Bytes(attachment_));
  }
  void Start(const std::shared_ptr<Channel>& channel) override {
    EndToEnd::NewStub(channel)->async()->Echo(
        &context_, &request_, &reply_,
        [this](const absl::Status& status) { End(status); });
  }

 private:
  const std::string attachment_;
  EchoRequest request_;
  EchoReply reply_;
};

// Reads all that comes.
class ServerCall final : public AnyCall, public ClientReadReactor<Item> {
 public:
  void Start(const std::shared_ptr<Channel>& channel) override {
    StreamService::NewStub(channel)->async()->List(&context_, &request_, this);
    StartRead(&item_, &attachment_);
    StartCall();
  }
  void OnReadDone(bool ok) override {
    if (ok) StartRead(&item_, &attachment_);
  }
  void OnDone(const absl::Status& status) override { End(status); }

 private:
  const ListRequest request_;
  Item item_;
  Buffer attachment_;
};

// Writes as many as there are to be.
template <typename Reactor>
class WritingCall : public AnyCall, public Reactor {
 public:
  explicit WritingCall(const Message& message)
      : attachment_(Pattern(message.attachment_bytes, 2)) {
    item_.set_payload(Pattern(message.payload_bytes, 1));
  }
  void OnWriteDone(bool ok) override {
    if (ok) Write();
  }
  void OnDone(const absl::Status& status) override { End(status); }

 protected:
  void Write() {
    if (written_++ == kMessages) return this->StartWritesDone();
    this->StartWrite(&item_, Bytes(attachment_));
  }

 private:
  const std::string attachment_;
  Item item_;
  uint64_t written_ = 0;
};

class ClientCall final : public WritingCall<ClientWriteReactor<Item>> {
 public:
  using WritingCall::WritingCall;
  void Start(const std::shared_ptr<Channel>& channel) override {
    StreamService::NewStub(channel)->async()->Record(&context_, &summary_,
                                                     this);
    Write();
    StartCall();
  }

 private:
  Summary summary_;
};

class BidiCall final : public WritingCall<ClientBidiReactor<Item, Item>> {
 public:
  using WritingCall::WritingCall;
  void Start(const std::shared_ptr<Channel>& channel) override {
    StreamService::NewStub(channel)->async()->Chat(&context_, this);
    StartRead(&answer_, &beside_);
    Write();
    StartCall();
  }
  void OnReadDone(bool ok) override {
    if (ok) StartRead(&answer_, &beside_);
  }

 private:
  Item answer_;
  Buffer beside_;
};

}  // namespace

std::unique_ptr<AnyCall> AnyCall::New(Kind kind, const Message& message) {
  switch (kind) {
    case Kind::kUnary:
      return std::make_unique<UnaryCall>(message);
    case Kind::kClient:
      return std::make_unique<ClientCall>(message);
    case Kind::kServer:
      return std::make_unique<ServerCall>();
    case Kind::kBidi:
      break;
  }
  return std::make_unique<BidiCall>(message);
}

absl::Status AnyCall::Wait() {
  ended_.Wait();
  return std::move(status_);
}

void AnyCall::End(const absl::Status& status) {
  // Copies the text. A copy of the status would share it by a reference count
  // in Debian's abseil, which is not built for TSan.
  status_ = absl::Status(status.code(), status.message());
  ended_.Done();
}

}  // namespace verbena::end_to_end
