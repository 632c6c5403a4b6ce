// The code in docs/calls.md, around which stands what makes it compile. A test
// of the documents compares the two; nothing runs it.

#include "rpc/client_coroutine.h"
#include "rpc/client_interceptor.h"
#include "rpc/rpc.h"
#include "rpc/server_coroutine.h"
#include "rpc/server_interceptor.h"
#include "rpc/services/health_service.h"
#include "rpc/services/reflection_service.h"
#include "rpc/status_details.h"
#include "snippets/snippets.verbena.h"

namespace snippets {
namespace {

Note Answer(const Note& note) { return note; }
void Fill(absl::Span<uint8_t> /*bytes*/) {}
void Use(absl::Span<const uint8_t> /*bytes*/) {}
size_t SizeOfSmall(const Note& /*request*/) { return 64; }
void Resize(absl::Span<const uint8_t> /*from*/, absl::Span<uint8_t> /*to*/) {}
void Record(absl::string_view /*method*/, absl::Duration /*time*/,
            const absl::Status& /*status*/) {}

class StreamsService final : public Streams::Service {
  absl::Status Chat(verbena::ServerContext* context,
                    verbena::ServerReaderWriter<Note, Note>* stream) override {
    Note note;
    while (stream->Read(&note)) stream->Write(Answer(note));
    return absl::OkStatus();  // Goes out behind the last message.
  }
};

void AnswerSmaller(verbena::ServerContext* context, const Note* request) {
  verbena::Buffer small = context->AllocateBuffer(SizeOfSmall(*request));
  Resize(context->request_attachment(), small.span());
  context->set_response_attachment(std::move(small));
}

void Before(verbena::ClientContext& context, const std::string& token) {
  context.AddMetadata("token", token);
}

class ImagesService final : public Images::Service {
  absl::Status Resize(verbena::ServerContext* context, const Note* request,
                      Note* /*reply*/) override {
    AnswerSmaller(context, request);
    return absl::OkStatus();
  }

  absl::Status SayHello(verbena::ServerContext* context,
                        const Note* /*request*/, Note* /*reply*/) override {
    const std::string id;
    context->AddInitialMetadata("session", id);
    context->SendInitialMetadata();
    context->AddTrailingMetadata("cost", "17");
    absl::Status status = absl::UnavailableError("no");
    const QuotaFailure violation;
    verbena::AddStatusDetail(&status, violation);
    return status;
  }
};

class ChatterService final : public Chatter::CoroutineService {
  verbena::Task<absl::Status> Chat(
      verbena::ServerContext* context,
      verbena::CoroutineServerReaderWriter<Note, Note>* stream) override {
    Note note;
    while (co_await stream->Read(&note)) co_await stream->Write(Answer(note));
    co_return absl::OkStatus();
  }
};

verbena::Task<absl::Status> Talk(Chatter::Stub* stub) {
  verbena::ClientContext context;
  auto stream = stub->co()->Chat(&context);
  Note note;
  co_await stream.Write(note);
  co_await stream.Read(&note);
  stream.WritesDone();
  co_return co_await stream.Finish();
}

absl::Status Coroutines(std::unique_ptr<Chatter::Stub> stub) {
  absl::Status status = verbena::SyncWait(Talk(stub.get()));
  return status;
}

void Callbacks(Images::Stub* stub) {
  verbena::ClientContext context;
  Note request, reply;
  stub->async()->SayHello(&context, &request, &reply,
                          [](absl::Status status) { status.IgnoreError(); });
}

absl::Status Streaming(Streams::Stub* stub) {
  verbena::ClientContext context;
  Note note, answer;
  auto stream = stub->Chat(&context);
  stream->Write(note);
  while (stream->Read(&answer)) {
    note = answer;
  }
  stream->WritesDone();
  absl::Status status = stream->Finish();
  return status;
}

absl::Status Attachments(std::shared_ptr<verbena::Channel> channel,
                         Images::Stub* stub, size_t size) {
  Note request, reply;
  verbena::Buffer image = channel->AllocateBuffer(size);
  Fill(image.span());
  verbena::ClientContext context;
  context.set_request_attachment(std::move(image));
  absl::Status status = stub->Resize(&context, request, &reply);
  Use(context.response_attachment());
  return status;
}

class Timer final : public verbena::ServerInterceptor {
 public:
  explicit Timer(verbena::ServerRpcInfo* info) : info_(*info) {}
  absl::Status OnStart() override {
    start_ = absl::Now();
    return absl::OkStatus();
  }
  void OnEnd(absl::Status* status) override {
    Record(info_.method(), absl::Now() - start_, *status);
  }

 private:
  verbena::ServerRpcInfo& info_;
  absl::Time start_;
};

class Timers final : public verbena::ServerInterceptorFactory {
  std::unique_ptr<verbena::ServerInterceptor> CreateServerInterceptor(
      verbena::ServerRpcInfo* info) override {
    return std::make_unique<Timer>(info);
  }
};

class MyFactory final : public verbena::ClientInterceptorFactory {
  std::unique_ptr<verbena::ClientInterceptor> CreateClientInterceptor(
      verbena::ClientRpcInfo* /*info*/) override {
    return nullptr;
  }
};

void Interceptors(verbena::ServerBuilder& builder,
                  verbena::ChannelOptions& options) {
  builder.AddInterceptor(std::make_shared<Timers>());
  options.interceptors.push_back(std::make_shared<MyFactory>());
}

void Services(verbena::ServerBuilder& builder) {
  verbena::HealthService health;
  verbena::ReflectionService reflection;
  builder.RegisterService(&health).RegisterService(&reflection);
  health.SetServingStatus("helloworld.Greeter", true);
}

bool Metadata(const std::string& token, const absl::Status& status) {
  verbena::ClientContext context;
  Before(context, token);
  context.GetServerInitialMetadata(), context.GetServerTrailingMetadata();
  std::optional<QuotaFailure> found =
      verbena::GetStatusDetail<QuotaFailure>(status);
  return found.has_value();
}

// Uses the snippets above, so that the compiler finds none of them unused.
[[maybe_unused]] void UseAll() {
  StreamsService streams;
  ImagesService images;
  ChatterService chatter;
  verbena::ServerBuilder builder;
  verbena::ChannelOptions options;
  builder.RegisterService(&streams).RegisterService(&images);
  builder.RegisterService(&chatter);
  Services(builder);
  Interceptors(builder, options);
  auto channel = verbena::CreateChannel("127.0.0.1:1", options);
  const auto stub = Images::NewStub(channel);
  Callbacks(stub.get());
  Streaming(Streams::NewStub(channel).get()).IgnoreError();
  Coroutines(Chatter::NewStub(channel)).IgnoreError();
  Metadata("", Attachments(channel, stub.get(), 64));
}

}  // namespace
}  // namespace snippets
