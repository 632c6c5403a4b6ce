#include "tools/gateway/gateway.h"

#include <grpcpp/generic/generic_stub.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/generic_stub.h"
#include "tools/gateway/grpc_side.h"
#include "tools/gateway/probe_service.h"
#include "tools/gateway/verbena_side.h"

namespace verbena::gateway::test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

std::string AnyPort(const std::string& scheme) {
  return scheme + "127.0.0.1:0";
}

std::unique_ptr<Gateway> StartGateway(const std::string& from,
                                      const std::string& to) {
  GatewayOptions options;
  options.from = from;
  options.to = to;
  absl::StatusOr<std::unique_ptr<Gateway>> gateway = Gateway::Start(options);
  EXPECT_TRUE(gateway.ok()) << gateway.status();
  return gateway.ok() ? *std::move(gateway) : nullptr;
}

template <typename ClientSide, typename ServerSide>
struct Way {
  using Client = ClientSide;
  using Server = ServerSide;
};
using Ways =
    testing::Types<Way<GrpcSide, VerbenaSide>, Way<VerbenaSide, GrpcSide>>;

// A client of one library, the gateway, and a server of the other, in one
// process.
template <typename Way>
class GatewayTest : public testing::Test {
 protected:
  using Client = typename Way::Client;
  using Server = typename Way::Server;

  GatewayTest() {
    gateway_ = StartGateway(AnyPort(Client::kScheme),
                            absl::StrCat(Server::kScheme, server_.address()));
    stub_ = Client::NewStub(gateway_->address());
  }

  static Note Text(std::string text, int64_t count = 0) {
    Note note;
    note.set_text(std::move(text));
    note.set_count(count);
    return note;
  }
  absl::Status Echo(const Note& request, Note* reply) {
    return Client::ToAbsl(stub_->Echo(&context_, request, reply));
  }
  void ExpectFailure(const absl::Status& status) {
    EXPECT_EQ(status, Failure());  // Details included.
  }
  void SendMetadata() {
    context_.AddMetadata("x-sent", "a word");
    context_.AddMetadata("x-sent-bin", std::string("\0\xff\n", 3));
  }
  void ExpectMetadata() {
    EXPECT_THAT(Client::ToMetadata(context_.GetServerInitialMetadata()),
                Contains(Pair("x-initial", "a word")));
    EXPECT_THAT(Client::ToMetadata(context_.GetServerTrailingMetadata()),
                Contains(Pair("x-trailing-bin", std::string("\0\xff\n", 3))));
  }

  ProbeService<Server> service_;
  typename Server::Server server_{&service_};
  std::unique_ptr<Gateway> gateway_;
  std::unique_ptr<typename Client::Stub> stub_;
  typename Client::ClientContext context_;
};

TYPED_TEST_SUITE(GatewayTest, Ways);

TYPED_TEST(GatewayTest, UnaryCallsPassFromTheFirstOn) {
  for (int i = 1; i <= 3; ++i) {
    typename TypeParam::Client::ClientContext context;
    Note reply;
    const Note request = this->Text(absl::StrCat("call ", i), i);
    ASSERT_EQ(
        TypeParam::Client::ToAbsl(this->stub_->Echo(&context, request, &reply)),
        absl::OkStatus());
    EXPECT_EQ(reply.text(), request.text());
    EXPECT_EQ(reply.count(), i);
    EXPECT_EQ(this->service_.calls, i);
  }
}

TYPED_TEST(GatewayTest, AnEmptyMessageIsAMessage) {
  Note reply;
  EXPECT_EQ(this->Echo(Note(), &reply), absl::OkStatus());
}

TYPED_TEST(GatewayTest, FourMebibytesPass) {
  std::string text(size_t{4} << 20, '\0');
  for (size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<char>(i * 7 + i / 4096);
  }
  Note reply;
  ASSERT_EQ(this->Echo(this->Text(text), &reply), absl::OkStatus());
  EXPECT_TRUE(reply.text() == text);
}

TYPED_TEST(GatewayTest, StreamsOfRequestsPass) {
  Note reply;
  auto stream = this->stub_->Collect(&this->context_, &reply);
  for (const char* word : {"one", "two", "three"}) {
    ASSERT_TRUE(stream->Write(this->Text(word)));
  }
  stream->WritesDone();
  ASSERT_EQ(TypeParam::Client::ToAbsl(stream->Finish()), absl::OkStatus());
  EXPECT_EQ(reply.text(), "onetwothree");
  EXPECT_EQ(reply.count(), 3);
}

TYPED_TEST(GatewayTest, AStreamMayHaveNoMessages) {
  Note reply;
  auto stream = this->stub_->Collect(&this->context_, &reply);
  stream->WritesDone();
  ASSERT_EQ(TypeParam::Client::ToAbsl(stream->Finish()), absl::OkStatus());
  EXPECT_EQ(reply.count(), 0);
}

TYPED_TEST(GatewayTest, StreamsOfRepliesPassInTheirOrder) {
  this->SendMetadata();
  auto stream = this->stub_->Spread(&this->context_, this->Text("again", 1000));
  Note note;
  for (int64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(stream->Read(&note)) << i;
    ASSERT_EQ(note.count(), i);
  }
  EXPECT_FALSE(stream->Read(&note));
  EXPECT_EQ(TypeParam::Client::ToAbsl(stream->Finish()), absl::OkStatus());
  this->ExpectMetadata();
}

TYPED_TEST(GatewayTest, EachSideOfAConversationWaitsForTheOther) {
  this->SendMetadata();
  auto stream = this->stub_->Chat(&this->context_);
  Note note;
  for (int64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(stream->Write(this->Text("word", i)));
    ASSERT_TRUE(stream->Read(&note));
    ASSERT_EQ(note.count(), i);
  }
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&note));
  EXPECT_EQ(TypeParam::Client::ToAbsl(stream->Finish()), absl::OkStatus());
  this->ExpectMetadata();
}

TYPED_TEST(GatewayTest, MetadataPassBothWays) {
  this->SendMetadata();
  Note reply;
  ASSERT_EQ(this->Echo(this->Text("words"), &reply), absl::OkStatus());
  this->ExpectMetadata();
}

TYPED_TEST(GatewayTest, AStatusKeepsItsCodeMessageAndDetails) {
  this->SendMetadata();
  Note reply;
  this->ExpectFailure(this->Echo(this->Text("fail"), &reply));
  this->ExpectMetadata();
}

TYPED_TEST(GatewayTest, AStatusIsTheSameBehindMessages) {
  auto stream = this->stub_->Spread(&this->context_, this->Text("fail", 3));
  Note note;
  int read = 0;
  while (stream->Read(&note)) ++read;
  EXPECT_EQ(read, 3);
  this->ExpectFailure(TypeParam::Client::ToAbsl(stream->Finish()));
}

TYPED_TEST(GatewayTest, AServerMayEndAStreamThatTheClientHasNot) {
  auto stream = this->stub_->Chat(&this->context_);
  stream->Write(this->Text("fail"));
  Note note;
  EXPECT_FALSE(stream->Read(&note));
  this->ExpectFailure(TypeParam::Client::ToAbsl(stream->Finish()));
}

TYPED_TEST(GatewayTest, ADeadlinePasses) {
  TypeParam::Client::SetTimeout(&this->context_, absl::Seconds(1000));
  Note reply;
  ASSERT_EQ(this->Echo(this->Text("words"), &reply), absl::OkStatus());
  // gRPC sends long timeouts with only two or three digits.
  EXPECT_GT(this->service_.seconds_left, 900);
  EXPECT_LT(this->service_.seconds_left, 1100);
}

TYPED_TEST(GatewayTest, NoDeadlineIsNone) {
  Note reply;
  ASSERT_EQ(this->Echo(this->Text("words"), &reply), absl::OkStatus());
  EXPECT_EQ(this->service_.seconds_left,
            std::numeric_limits<double>::infinity());
}

TYPED_TEST(GatewayTest, ADeadlineEndsACallAtBothEnds) {
  TypeParam::Client::SetTimeout(&this->context_, absl::Milliseconds(300));
  auto stream = this->stub_->Chat(&this->context_);
  stream->Write(this->Text("wait"));
  Note note;
  while (stream->Read(&note)) {
  }
  EXPECT_EQ(TypeParam::Client::ToAbsl(stream->Finish()).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(this->service_.cancelled.get_future().get());
}

TYPED_TEST(GatewayTest, ACancellationReachesTheServer) {
  auto stream = this->stub_->Chat(&this->context_);
  ASSERT_TRUE(stream->Write(this->Text("wait")));
  Note note;
  ASSERT_TRUE(stream->Read(&note));
  this->context_.TryCancel();
  EXPECT_FALSE(stream->Read(&note));
  EXPECT_EQ(TypeParam::Client::ToAbsl(stream->Finish()).code(),
            absl::StatusCode::kCancelled);
  EXPECT_TRUE(this->service_.cancelled.get_future().get());
}

// So much may be on its way in windows and buffers: far less than all. The
// other calls show that nothing else stands still, and give the writer the
// time.
TYPED_TEST(GatewayTest, AReaderThatIsSlowStopsTheWriter) {
  constexpr int64_t kMessages = 1200;
  constexpr int64_t kMostAhead = 600;
  auto stream = this->stub_->Spread(
      &this->context_,
      this->Text(std::string(size_t{64} << 10, 'x'), kMessages));
  Note note;
  ASSERT_TRUE(stream->Read(&note));
  int64_t before = -1;
  while (this->service_.written != before &&
         this->service_.written < kMostAhead) {
    before = this->service_.written;
    for (int i = 0; i < 200; ++i) {
      typename TypeParam::Client::ClientContext context;
      Note reply;
      ASSERT_EQ(TypeParam::Client::ToAbsl(
                    this->stub_->Echo(&context, this->Text("word"), &reply)),
                absl::OkStatus());
    }
  }
  EXPECT_LT(this->service_.written, kMostAhead);
  int64_t read = 1;
  while (stream->Read(&note)) ++read;
  EXPECT_EQ(read, kMessages);
  EXPECT_EQ(TypeParam::Client::ToAbsl(stream->Finish()), absl::OkStatus());
}

TYPED_TEST(GatewayTest, ManyStreamsMayBeOpenAtOnce) {
  using Client = typename TypeParam::Client;
  struct Open {
    typename Client::ClientContext context;
    decltype(std::declval<typename Client::Stub>().Chat(nullptr)) stream;
  };
  std::vector<std::unique_ptr<Open>> all;
  Note note;
  for (int64_t i = 0; i < 100; ++i) {
    all.push_back(std::make_unique<Open>());
    all[i]->stream = this->stub_->Chat(&all[i]->context);
    ASSERT_TRUE(all[i]->stream->Write(this->Text("word", i)));
    ASSERT_TRUE(all[i]->stream->Read(&note));
    ASSERT_EQ(note.count(), i);
  }
  for (auto& open : all) {
    open->stream->WritesDone();
    EXPECT_FALSE(open->stream->Read(&note));
    EXPECT_EQ(Client::ToAbsl(open->stream->Finish()), absl::OkStatus());
  }
}

TYPED_TEST(GatewayTest, WithoutAServerCallsEndWithUnavailable) {
  const auto gateway =
      StartGateway(AnyPort(TypeParam::Client::kScheme),
                   absl::StrCat(TypeParam::Server::kScheme, "127.0.0.1:9"));
  const auto stub = TypeParam::Client::NewStub(gateway->address());
  Note reply;
  const absl::Status status = TypeParam::Client::ToAbsl(
      stub->Echo(&this->context_, this->Text("words"), &reply));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

TYPED_TEST(GatewayTest, CallsWaitForAServerIfTheyAreToldTo) {
  GatewayOptions options;
  options.from = AnyPort(TypeParam::Client::kScheme);
  options.to = absl::StrCat(TypeParam::Server::kScheme, "127.0.0.1:9");
  options.wait_for_ready = true;
  const auto gateway = *Gateway::Start(options);
  const auto stub = TypeParam::Client::NewStub(gateway->address());
  TypeParam::Client::SetTimeout(&this->context_, absl::Milliseconds(300));
  Note reply;
  const absl::Status status = TypeParam::Client::ToAbsl(
      stub->Echo(&this->context_, this->Text("words"), &reply));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
}

TYPED_TEST(GatewayTest, AShutdownLetsCallsEnd) {
  auto stream = this->stub_->Chat(&this->context_);
  Note note;
  ASSERT_TRUE(stream->Write(this->Text("word")));
  ASSERT_TRUE(stream->Read(&note));
  std::thread end([&] {
    stream->WritesDone();
    EXPECT_FALSE(stream->Read(&note));
    EXPECT_EQ(TypeParam::Client::ToAbsl(stream->Finish()), absl::OkStatus());
  });
  this->gateway_->Shutdown(absl::Now() + absl::Seconds(60));
  end.join();
}

using FromGrpcTest = GatewayTest<Way<GrpcSide, VerbenaSide>>;
using FromVerbenaTest = GatewayTest<Way<VerbenaSide, GrpcSide>>;

TEST_F(FromGrpcTest, AnUnknownMethodIsUnimplemented) {
  grpc::TemplatedGenericStub<Note, Note> stub(grpc::CreateChannel(
      gateway_->address(), grpc::InsecureChannelCredentials()));
  grpc::CompletionQueue queue;
  Note reply;
  grpc::Status status;
  auto call = stub.PrepareUnaryCall(&context_, "/no.Such/Method", Text("words"),
                                    &queue);
  call->StartCall();
  call->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(), Not(HasSubstr(".proto")));
}

TEST_F(FromVerbenaTest, AKeyThatGrpcHasNotEndsTheCall) {
  context_.AddMetadata("two words", "value");
  Note reply;
  const absl::Status status = Echo(Text("words"), &reply);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("\"two words\""));
}

TEST_F(FromVerbenaTest, AnAttachmentEndsTheCall) {
  const std::string bytes = "bytes";
  context_.set_request_attachment(absl::MakeConstSpan(
      reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
  Note reply;
  const absl::Status status = Echo(Text("words"), &reply);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("attachment of 5 bytes"));
}

TEST(GatewayOptionsTest, AddressesHaveToBeOfBothKinds) {
  for (const auto& [from, to] :
       {std::pair("grpc://127.0.0.1:0", "grpc://127.0.0.1:1"),
        std::pair("verbena://127.0.0.1:0", "verbena://127.0.0.1:1"),
        std::pair("127.0.0.1:0", "verbena://127.0.0.1:1"),
        std::pair("grpc://127.0.0.1:0", "")}) {
    GatewayOptions options;
    options.from = from;
    options.to = to;
    EXPECT_EQ(Gateway::Start(options).status().code(),
              absl::StatusCode::kInvalidArgument)
        << from << " " << to;
  }
}

TEST(GatewayOptionsTest, APortIsListenedAtOnce) {
  const auto first = StartGateway(AnyPort("grpc://"), "verbena://127.0.0.1:9");
  GatewayOptions options;
  options.from = "grpc://" + first->address();
  options.to = "verbena://127.0.0.1:9";
  EXPECT_EQ(Gateway::Start(options).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace verbena::gateway::test
