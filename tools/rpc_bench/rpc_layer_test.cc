// The layer against a server in this process that may misbehave. Honours
// VERBENA_DEVICE and VERBENA_TEST_ADDRESS.

#include "tools/rpc_bench/rpc_layer.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "rpc/buffer.h"
#include "rpc/server.h"
#include "rpc/server_builder.h"
#include "rpc/server_context.h"
#include "rpc/server_stream.h"
#include "tests/testing/child_process.h"
#include "tools/rpc_bench/echo.verbena.h"

namespace verbena::bench {
namespace {

enum class Answer { kEcho, kOtherBytes, kFewerBytes, kError };

class FickleService final : public Echo::Service {
 public:
  absl::Status Echo(ServerContext* context, const EchoRequest* request,
                    EchoReply* reply) override {
    std::string payload = request->payload();
    Buffer attachment = context->TakeRequestAttachment();
    switch (answer_.load()) {
      case Answer::kEcho:
        break;
      case Answer::kOtherBytes:
        if (!payload.empty()) payload.back() ^= 1;
        if (!attachment.empty()) attachment.data()[0] ^= 1;
        break;
      case Answer::kFewerBytes:
        if (!payload.empty()) payload.pop_back();
        break;
      case Answer::kError:
        return absl::ResourceExhaustedError("enough");
    }
    reply->set_payload(payload);
    context->set_response_attachment(std::move(attachment));
    return absl::OkStatus();
  }

  // Streams are as they should be, but for one that is cut short.
  absl::Status Chat(
      ServerContext* /*context*/,
      ServerReaderWriter<EchoReply, EchoRequest>* stream) override {
    EchoRequest request;
    EchoReply reply;
    Buffer attachment;
    while (stream->Read(&request, &attachment)) {
      if (answer_ == Answer::kError) return absl::ResourceExhaustedError("no");
      reply.set_payload(request.payload());
      if (answer_ == Answer::kOtherBytes) reply.mutable_payload()->back() ^= 1;
      if (!stream->Write(reply, attachment.span())) break;
    }
    return absl::OkStatus();
  }
  absl::Status Send(ServerContext* /*context*/, const EchoRequest* request,
                    ServerWriter<EchoReply>* writer) override {
    EchoReply reply;
    reply.set_payload(request->payload());
    while (answer_ != Answer::kError && writer->Write(reply)) {
    }
    return absl::ResourceExhaustedError("no");
  }
  absl::Status Receive(ServerContext* /*context*/,
                       ServerReader<EchoRequest>* reader,
                       ReceiveReply* reply) override {
    EchoRequest request;
    uint64_t messages = 0;
    while (answer_ != Answer::kError && reader->Read(&request)) ++messages;
    if (answer_ == Answer::kError) return absl::ResourceExhaustedError("no");
    reply->set_messages(answer_ == Answer::kFewerBytes ? 1 : messages);
    return absl::OkStatus();
  }

  void set_answer(Answer answer) { answer_ = answer; }

 private:
  std::atomic<Answer> answer_{Answer::kEcho};
};

class RpcLayerTest : public testing::Test {
 protected:
  void SetUp() override {
    ServerBuilder builder;
    builder.AddListeningPort(testing_support::TestAddress() + ":0");
    builder.RegisterService(&service_);
    absl::StatusOr<std::unique_ptr<Server>> server = builder.BuildAndStart();
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    absl::StatusOr<std::unique_ptr<RpcLayer>> layer = RpcLayer::Connect(
        server_->listening().front().address, {}, absl::Seconds(30));
    ASSERT_TRUE(layer.ok()) << layer.status();
    layer_ = *std::move(layer);
  }

  Sample Run(Answer answer, int outstanding, uint64_t size_bytes = 1000) {
    service_.set_answer(answer);
    return layer_->Run({.size_bytes = size_bytes, .outstanding = outstanding},
                       absl::Milliseconds(20));
  }

  Sample RunStream(Kind kind, Answer answer, int outstanding,
                   uint64_t size_bytes = 1000) {
    service_.set_answer(answer);
    return layer_->Run(
        {.size_bytes = size_bytes, .outstanding = outstanding, .kind = kind},
        absl::Milliseconds(20));
  }

  Sample RunBeside(Answer answer, int outstanding, bool validate) {
    service_.set_answer(answer);
    return layer_->Run({.size_bytes = 100000,
                        .outstanding = outstanding,
                        .attachment = true,
                        .validate = validate},
                       absl::Milliseconds(20));
  }

  FickleService service_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<RpcLayer> layer_;  // Goes first.
};

TEST_F(RpcLayerTest, CountsEchoes) {
  for (int outstanding : {1, 2, 32}) {
    const Sample sample = Run(Answer::kEcho, outstanding);
    EXPECT_GT(sample.latencies.count(), 0u);
    EXPECT_EQ(sample.errors, 0u) << sample.first_error;
    EXPECT_GT(sample.calls_per_s, 0);
    EXPECT_GT(sample.ended, sample.latencies.count());
  }
  EXPECT_NE(layer_->device(), "");
  EXPECT_EQ(layer_->name(), "rpc");
}

TEST_F(RpcLayerTest, CountsEchoesBesideTheMessage) {
  for (int outstanding : {1, 8}) {
    for (bool validate : {false, true}) {
      const Sample sample = RunBeside(Answer::kEcho, outstanding, validate);
      EXPECT_GT(sample.latencies.count(), 0u);
      EXPECT_EQ(sample.errors, 0u) << sample.first_error;
    }
  }
  EXPECT_EQ(RunBeside(Answer::kOtherBytes, 1, true).first_error,
            absl::DataLossError("other bytes came back than were sent"));
}

TEST_F(RpcLayerTest, CountsErrorsAndKeepsTheFirst) {
  for (int outstanding : {1, 8}) {
    const Sample sample = Run(Answer::kError, outstanding);
    EXPECT_EQ(sample.latencies.count(), 0u);
    EXPECT_GT(sample.errors, 0u);
    EXPECT_EQ(sample.first_error, absl::ResourceExhaustedError("enough"));
  }
}

TEST_F(RpcLayerTest, NoticesOtherBytes) {
  for (int outstanding : {1, 8}) {
    const Sample sample = Run(Answer::kOtherBytes, outstanding);
    EXPECT_EQ(sample.latencies.count(), 0u);
    EXPECT_EQ(sample.first_error,
              absl::DataLossError("other bytes came back than were sent"));
  }
}

TEST_F(RpcLayerTest, NoticesAnotherLength) {
  EXPECT_EQ(Run(Answer::kFewerBytes, 8).first_error,
            absl::DataLossError("999 bytes came back of 1000"));
}

TEST_F(RpcLayerTest, CountsTheMessagesOfAStream) {
  for (const Kind kind : {Kind::kBidi, Kind::kServer, Kind::kClient}) {
    for (const int outstanding : {1, 32}) {
      const Sample sample = RunStream(kind, Answer::kEcho, outstanding);
      EXPECT_GT(sample.latencies.count(), 0u);
      EXPECT_EQ(sample.errors, 0u) << sample.first_error;
      EXPECT_GT(sample.calls_per_s, 0);
    }
  }
}

TEST_F(RpcLayerTest, EchoesMoreByOneStreamThanMayBeUnderWay) {
  const Sample sample =
      RunStream(Kind::kBidi, Answer::kEcho, 32, /*size_bytes=*/100000);
  EXPECT_GT(sample.latencies.count(), 0u);
  EXPECT_EQ(sample.errors, 0u) << sample.first_error;
}

TEST_F(RpcLayerTest, KeepsTheErrorThatEndsAStream) {
  for (const Kind kind : {Kind::kBidi, Kind::kServer, Kind::kClient}) {
    const Sample sample = RunStream(kind, Answer::kError, 8);
    EXPECT_GT(sample.errors, 0u);
    EXPECT_EQ(sample.first_error, absl::ResourceExhaustedError("no"));
  }
}

TEST_F(RpcLayerTest, NoticesWhatIsWrongInStreams) {
  EXPECT_EQ(RunStream(Kind::kBidi, Answer::kOtherBytes, 8).first_error,
            absl::DataLossError("other bytes came back than were sent"));
  EXPECT_EQ(RunStream(Kind::kClient, Answer::kFewerBytes, 8).first_error.code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(RpcLayerTest, SaysWhyItCannotConnect) {
  const std::string address = server_->listening().front().address;
  layer_.reset();
  server_.reset();
  EXPECT_EQ(RpcLayer::Connect(address, {}, absl::Seconds(10)).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace verbena::bench
