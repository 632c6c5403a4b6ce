// Calls by the names of their methods, and services that answer any.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/byte_message.h"
#include "rpc/generic_service.h"
#include "rpc/generic_stub.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/streaming_fixture.h"
#include "tests/integration/test_service.h"
#include "transport/base/limits.h"

namespace verbena::end_to_end {
namespace {

using testing::HasSubstr;

constexpr char kEcho[] = "verbena.end_to_end.EndToEnd/Echo";
constexpr char kFail[] = "verbena.end_to_end.EndToEnd/Fail";
constexpr char kList[] = "verbena.end_to_end.StreamService/List";
constexpr char kRecord[] = "verbena.end_to_end.StreamService/Record";
constexpr char kChat[] = "verbena.end_to_end.StreamService/Chat";

template <typename Message>
ByteMessage Serialised(const Message& message) {
  return ByteMessage(message.SerializeAsString());
}

class GenericStubTest : public EndToEndTest {
 protected:
  GenericStub NewGenericStub() { return GenericStub(NewChannel()); }
  ClientContext context_;
};

TEST_F(GenericStubTest, AUnaryCallByNameIsAnsweredInBytes) {
  UseServer();
  const GenericStub stub = NewGenericStub();
  EchoRequest request;
  for (const size_t bytes : {0, 10, 5000, 100000, 3000000}) {
    request.set_payload(Pattern(bytes, 1));
    ByteMessage response;
    ASSERT_EQ(stub.UnaryCall(&context_, kEcho, Serialised(request), &response),
              absl::OkStatus());
    EchoReply reply;
    ASSERT_TRUE(reply.ParseFromString(response.bytes()));
    EXPECT_EQ(reply.payload(), request.payload());
  }
}

TEST_F(GenericStubTest, TheNameMayBeginWithASlashAndGoBeforeTheCallEnds) {
  UseServer();
  const GenericStub stub = NewGenericStub();
  const ByteMessage request;
  ByteMessage response("x");
  absl::Status status = absl::UnknownError("not called back");
  Countdown done(1);
  {
    const std::string name = absl::StrCat("/", kEcho);
    stub.UnaryCall(&context_, name, &request, &response,
                   [&](absl::Status ended) {
                     status = std::move(ended);
                     done.Done();
                   });
  }
  done.Wait();
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_EQ(response.bytes(), "");
}

TEST_F(GenericStubTest, AttachmentsAndErrorsComeBack) {
  UseServer();
  const GenericStub stub = NewGenericStub();
  const std::string attachment = Pattern(20000, 7);
  context_.set_request_attachment(Bytes(attachment));
  ByteMessage response;
  ASSERT_EQ(stub.UnaryCall(&context_, kEcho, ByteMessage(), &response),
            absl::OkStatus());
  EXPECT_EQ(context_.response_attachment(), Bytes(attachment));
  FailRequest fail;
  fail.set_code(static_cast<int>(absl::StatusCode::kAborted));
  fail.set_message("as asked");
  EXPECT_EQ(stub.UnaryCall(&context_, kFail, Serialised(fail), &response),
            absl::AbortedError("as asked"));
}

TEST_F(GenericStubTest, StreamsOfAllKindsAreCalledByName) {
  UseServer();
  const GenericStub stub = NewGenericStub();
  ListRequest list;
  list.set_count(3);
  const auto reader =
      stub.ServerStreamingCall(&context_, kList, Serialised(list));
  ByteMessage message;
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(reader->Read(&message));
    EXPECT_EQ(message.bytes(), NewItem(i).SerializeAsString());
  }
  EXPECT_FALSE(reader->Read(&message));
  EXPECT_EQ(reader->Finish(), absl::OkStatus());

  ClientContext record_context;
  const auto writer =
      stub.ClientStreamingCall(&record_context, kRecord, &message);
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(writer->Write(Serialised(NewItem(i, 100))));
  }
  ASSERT_EQ(writer->Finish(), absl::OkStatus());
  Summary summary;
  ASSERT_TRUE(summary.ParseFromString(message.bytes()));
  EXPECT_EQ(summary.count(), 3u);
  EXPECT_EQ(summary.payload_bytes(), 300u);

  ClientContext chat_context;
  const auto stream = stub.BidiStreamingCall(&chat_context, kChat);
  ASSERT_TRUE(stream->Write(Serialised(NewItem(5, 10)), Bytes("beside")));
  Buffer beside;
  ASSERT_TRUE(stream->Read(&message, &beside));
  EXPECT_EQ(message.bytes(), NewItem(5, 10).SerializeAsString());
  EXPECT_EQ(beside.span(), Bytes("beside"));
  stream->WritesDone();
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
}

TEST_F(GenericStubTest, AMethodThatTheServerDoesNotHaveIsNamed) {
  UseServer();
  const GenericStub stub = NewGenericStub();
  ByteMessage response;
  absl::Status status =
      stub.UnaryCall(&context_, "some.Service/Method", {}, &response);
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("some.Service/Method"));
  const auto stream = stub.BidiStreamingCall(&context_, "some.Service/Stream");
  status = stream->Finish();
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("some.Service/Stream"));
}

TEST_F(GenericStubTest, WhatIsNoNameIsRefusedWithoutAServer) {
  const GenericStub stub(CreateChannel("127.0.0.1:1"));
  ByteMessage response;
  EXPECT_TRUE(absl::IsInvalidArgument(
      stub.UnaryCall(&context_, "Service", {}, &response)));
  absl::Status status;
  const ByteMessage request;
  stub.UnaryCall(&context_, "", &request, &response,
                 [&](absl::Status ended) { status = std::move(ended); });
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  const auto stream = stub.BidiStreamingCall(&context_, "a/b/c");
  EXPECT_FALSE(stream->Write(request));
  EXPECT_TRUE(absl::IsInvalidArgument(stream->Finish()));
}

// Answers with the method's name, and what it has been sent.
class NameService final : public GenericService {
 public:
  absl::Status HandleUnary(ServerContext* context, const ByteMessage* request,
                           ByteMessage* response) override {
    ++calls_;
    response->set_bytes(context->method() + request->bytes());
    for (const auto& [key, value] : context->client_metadata()) {
      context->AddTrailingMetadata(key, value);
    }
    return absl::OkStatus();
  }
  absl::Status HandleStream(
      ServerContext* context,
      ServerReaderWriter<ByteMessage, ByteMessage>* stream) override {
    ++calls_;
    stream->Write(ByteMessage(context->method()));
    ByteMessage message;
    while (stream->Read(&message)) stream->Write(message);
    return absl::OkStatus();
  }
  int calls() const { return calls_; }

 private:
  std::atomic<int> calls_{0};
};

class GenericServiceTest : public GenericStubTest {
 protected:
  ~GenericServiceTest() override { StopServer(); }

  void StartGenericServer() {
    StartServer([this](ServerBuilder& builder) {
      builder.RegisterGenericService(&names_);
    });
  }

  NameService names_;
};

TEST_F(GenericServiceTest, AnyMethodIsAnsweredAndTheHandlerKnowsItsName) {
  StartGenericServer();
  const GenericStub stub = NewGenericStub();
  context_.AddMetadata("trace", "1234");
  ByteMessage response;
  ASSERT_EQ(stub.UnaryCall(&context_, "any.Service/Method", ByteMessage("!"),
                           &response),
            absl::OkStatus());
  EXPECT_EQ(response.bytes(), "any.Service/Method!");
  // The name came with the metadata, and is none of them.
  EXPECT_EQ(context_.GetServerTrailingMetadata(),
            (Metadata{{"trace", "1234"}}));
  ClientContext stream_context;
  const auto stream =
      stub.BidiStreamingCall(&stream_context, "any.Service/Stream");
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.bytes(), "any.Service/Stream");
  ASSERT_TRUE(stream->Write(ByteMessage("question")));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.bytes(), "question");
  stream->WritesDone();
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
}

TEST_F(GenericServiceTest, GeneratedStubsSendTheNameToo) {
  StartGenericServer();
  const auto stub = Unregistered::NewStub(NewChannel());
  EchoRequest request;
  EchoReply reply;
  // The answer is no EchoReply, which the name's first byte shows.
  const absl::Status status = stub->Echo(&context_, request, &reply);
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_EQ(names_.calls(), 1);
}

TEST_F(GenericServiceTest, RegisteredServicesAnswerTheirOwnMethods) {
  StartGenericServer();
  const std::shared_ptr<Channel> channel = NewChannel();
  const auto stub = EndToEnd::NewStub(channel);
  for (const size_t bytes : {0, 100, 100000}) {
    EXPECT_EQ(EchoProblem(*stub, bytes, 1), "");
  }
  context_.AddMetadata("trace", "1234");
  Nothing nothing;
  Description description;
  ASSERT_EQ(stub->Describe(&context_, nothing, &description), absl::OkStatus());
  ASSERT_EQ(description.metadata_size(), 1);
  EXPECT_EQ(description.metadata(0), "trace=1234");
  const auto streams = StreamService::NewStub(channel);
  ClientContext stream_context;
  const auto chat = streams->Chat(&stream_context);
  EXPECT_TRUE(Echoes(*chat, NewItem(1, 100)));
  chat->WritesDone();
  EXPECT_EQ(chat->Finish(), absl::OkStatus());
  EXPECT_EQ(names_.calls(), 0);
}

TEST_F(GenericServiceTest, WhatIsNotOverriddenIsUnimplementedByName) {
  GenericService nothing;
  StartServer([&](ServerBuilder& builder) {
    builder.RegisterGenericService(&nothing);
  });
  const GenericStub stub = NewGenericStub();
  ByteMessage response;
  absl::Status status = stub.UnaryCall(&context_, "a.B/C", {}, &response);
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("a.B/C"));
  status = stub.BidiStreamingCall(&context_, "a.B/D")->Finish();
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("a.B/D"));
  StopServer();  // Before the service goes.
}

TEST_F(GenericServiceTest, MetadataThatLeaveNoRoomForTheNameAreRefused) {
  StartGenericServer();
  const GenericStub stub = NewGenericStub();
  context_.AddMetadata(
      "k", std::string(transport::kDefaultMaxMetadataBytes - 5, 'x'));
  ByteMessage response;
  const absl::Status status = stub.UnaryCall(&context_, "a.B/C", {}, &response);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("metadata"));
}

TEST_F(GenericServiceTest, LongMetadataArriveBesideTheName) {
  StartGenericServer();
  const GenericStub stub = NewGenericStub();
  // A pair of a short name and one of so many bytes: all in the REQUEST, just
  // too long for it with the name or without, and as long as may be.
  constexpr size_t kName = 4 + 5 + 5;
  constexpr size_t kFrame = transport::kFrameMetadataBytes - 5;
  for (const size_t bytes :
       {kFrame - kName, kFrame - kName + 1, kFrame, kFrame + 1, size_t{7000},
        transport::kDefaultMaxMetadataBytes - 5 - kName}) {
    ClientContext context;
    context.AddMetadata("k", Pattern(bytes, 1));
    ByteMessage response;
    ASSERT_EQ(stub.UnaryCall(&context, "a.B/C", ByteMessage("!"), &response),
              absl::OkStatus())
        << bytes;
    EXPECT_EQ(response.bytes(), "a.B/C!");
    EXPECT_EQ(context.GetServerTrailingMetadata(), context.metadata());
    ClientContext stream_context;
    stream_context.AddMetadata("k", Pattern(bytes, 1));
    const auto stream = stub.BidiStreamingCall(&stream_context, "a.B/C");
    stream->WritesDone();
    EXPECT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.bytes(), "a.B/C");
    EXPECT_EQ(stream->Finish(), absl::OkStatus()) << bytes;
  }
}

TEST_F(GenericServiceTest, AnInlineServiceAnswersOnThePoller) {
  names_.set_handler_mode(HandlerMode::kInline);
  StartGenericServer();
  const GenericStub stub = NewGenericStub();
  for (int i = 0; i < 100; ++i) {
    ByteMessage response;
    ASSERT_EQ(
        stub.UnaryCall(&context_, absl::StrCat("a.B/M", i), {}, &response),
        absl::OkStatus());
    EXPECT_EQ(response.bytes(), absl::StrCat("a.B/M", i));
  }
}

TEST_F(GenericServiceTest, AHandlerStopsTheThreadThatReads) {
  class Stopper final : public GenericService {
    absl::Status HandleStream(
        ServerContext* /*context*/,
        ServerReaderWriter<ByteMessage, ByteMessage>* stream) override {
      std::thread reader([stream] {
        ByteMessage message;
        while (stream->Read(&message)) stream->Write(message);
      });
      stream->StopReading();
      reader.join();
      return absl::AbortedError("enough");
    }
  };
  Stopper stopper;
  StartServer([&](ServerBuilder& builder) {
    builder.RegisterGenericService(&stopper);
  });
  // The client has not said that it has sent all.
  context_.set_timeout(absl::Minutes(2));
  EXPECT_EQ(NewGenericStub().BidiStreamingCall(&context_, "a.B/C")->Finish(),
            absl::AbortedError("enough"));
  StopServer();
}

}  // namespace
}  // namespace verbena::end_to_end
