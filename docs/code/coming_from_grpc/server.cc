// The server in docs/coming-from-grpc.md: see ../calls.cc.

#include "greeter.verbena.h"
#include "verbena/rpc.h"

Answer Reply(const Question& question) {
  Answer answer;
  answer.set_text(question.text());
  return answer;
}

class GreeterService final : public Greeter::Service {
  absl::Status SayHello(verbena::ServerContext* context,
                        const HelloRequest* request,
                        HelloReply* reply) override {
    reply->set_message("Hello " + request->name());
    return absl::OkStatus();
  }
  absl::Status Chat(
      verbena::ServerContext* context,
      verbena::ServerReaderWriter<Answer, Question>* stream) override {
    Question question;
    while (stream->Read(&question)) stream->Write(Reply(question));
    return absl::OkStatus();
  }
};

int main() {
  GreeterService service;
  verbena::ServerBuilder builder;
  builder.AddListeningPort("0.0.0.0:50051");
  builder.RegisterService(&service);
  absl::StatusOr<std::unique_ptr<verbena::Server>> server =
      builder.BuildAndStart();
  (*server)->Wait();
}
