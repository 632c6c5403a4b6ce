// How streams end that could not go well, and what travels beside messages.

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "rpc/support/methods.h"
#include "rpc/support/stub_support.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/streaming_fixture.h"
#include "tests/integration/test_service.h"

namespace verbena::end_to_end {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class StreamingStatusTest : public StreamingTest {
 protected:
  static void ExpectStatus(const absl::Status& status, absl::StatusCode code,
                           const std::string& text) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  void ExpectAllIsWell() {
    ClientContext context;
    const auto stream = stub_->Chat(&context);
    EXPECT_TRUE(Echoes(*stream, NewItem(1, 10)));
    EXPECT_TRUE(stream->WritesDone());
    EXPECT_EQ(stream->Finish(), absl::OkStatus());
  }
};

TEST_F(StreamingStatusTest, MetadataGoesBothWays) {
  Serve();
  streams().set_chat([](ServerContext* context, auto*) {
    for (const auto& [key, value] : context->client_metadata()) {
      context->AddTrailingMetadata("of-" + key, value);
    }
    EXPECT_LT(context->deadline(), absl::Now() + absl::Minutes(6));
    EXPECT_GT(context->deadline(), absl::Now());
    return absl::DataLossError("it is gone");
  });
  ClientContext context;
  context.AddMetadata("first", "one");
  context.AddMetadata("second", std::string("\0\xff", 2));
  context.set_timeout(absl::Minutes(5));
  const auto stream = stub_->Chat(&context);
  EXPECT_EQ(stream->Finish(), absl::DataLossError("it is gone"));
  EXPECT_THAT(context.GetServerTrailingMetadata(),
              ElementsAre(Pair("of-first", "one"),
                          Pair("of-second", std::string("\0\xff", 2))));
  EXPECT_EQ(context.peer(), target());
}

TEST_F(StreamingStatusTest, TrailingMetadataComeBehindTheMessagesToo) {
  Serve();
  streams().set_list([](ServerContext* context, auto* writer) {
    for (uint64_t i = 0; i < 1000; ++i) {
      EXPECT_TRUE(writer->Write(NewItem(i, 100)));
    }
    context->AddTrailingMetadata("count", "1000");
    return absl::OkStatus();
  });
  ClientContext context;
  const auto reader = stub_->List(&context, ListRequest());
  Item item;
  uint64_t count = 0;
  while (reader->Read(&item)) ++count;
  EXPECT_EQ(count, 1000u);
  EXPECT_EQ(reader->Finish(), absl::OkStatus());
  EXPECT_THAT(context.GetServerTrailingMetadata(),
              ElementsAre(Pair("count", "1000")));
}

// Messages that the handler has written before its error are not lost.
TEST_F(StreamingStatusTest, AnErrorComesBehindTheMessages) {
  Serve();
  streams().set_list([](ServerContext*, auto* writer) {
    for (uint64_t i = 0; i < 1000; ++i) {
      EXPECT_TRUE(writer->Write(NewItem(i, 1000)));
    }
    return absl::OutOfRangeError("no more");
  });
  ClientContext context;
  const auto reader = stub_->List(&context, ListRequest());
  Item item;
  uint64_t count = 0;
  while (reader->Read(&item)) ++count;
  EXPECT_EQ(count, 1000u);
  EXPECT_EQ(reader->Finish(), absl::OutOfRangeError("no more"));
}

TEST_F(StreamingStatusTest, TheServerSaysWhatIsTooLongForIt) {
  Serve([](ServerBuilder& builder) { builder.SetMaxReceiveMessageSize(1000); });
  Countdown heard(2);
  streams().set_chat([&heard](ServerContext* context, auto* stream) {
    Item item;
    EXPECT_TRUE(stream->Read(&item));
    EXPECT_TRUE(stream->Write(item));
    EXPECT_FALSE(stream->Read(&item));
    // The client has not ended its stream.
    EXPECT_TRUE(context->IsCancelled());
    heard.Done();
    return absl::OkStatus();
  });
  for (const size_t bytes : {1000, 100000}) {
    ClientContext context;
    const auto stream = stub_->Chat(&context);
    EXPECT_TRUE(Echoes(*stream, NewItem(1, 900)));
    EXPECT_TRUE(stream->Write(NewItem(2, bytes)));
    Item item;
    EXPECT_FALSE(stream->Read(&item));
    ExpectStatus(stream->Finish(), absl::StatusCode::kResourceExhausted,
                 "SetMaxReceiveMessageSize");
  }
  heard.Wait();
  streams().set_chat(nullptr);
  ExpectAllIsWell();
}

// Messages that the handler has written are sent, even if the client breaks a
// limit after that.
TEST_F(StreamingStatusTest, WhatIsTooLongDoesNoHarmWhenTheHandlerHasReturned) {
  constexpr uint64_t kItems = 12;  // They do not fit the window.
  Serve([](ServerBuilder& builder) { builder.SetMaxReceiveMessageSize(1000); });
  for (int i = 0; i < 50; ++i) {
    Countdown written(1);
    streams().set_chat([&written](ServerContext*, auto* stream) {
      for (uint64_t i = 0; i < kItems; ++i) {
        EXPECT_TRUE(stream->Write(NewItem(i, 9000)));
      }
      written.Done();
      return absl::OkStatus();
    });
    ClientContext context;
    const auto stream = stub_->Chat(&context);
    written.Wait();
    EXPECT_EQ(EchoProblem(*EndToEnd::NewStub(channel_), 100, 1), "");
    stream->Write(NewItem(1, 2000));
    EXPECT_EQ(EchoProblem(*EndToEnd::NewStub(channel_), 100, 1), "");
    Item item;
    uint64_t read = 0;
    while (stream->Read(&item)) ++read;
    const absl::Status status = stream->Finish();
    if (status.ok()) {
      EXPECT_EQ(read, kItems);
    } else {
      // The long message came before the handler had returned.
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    }
  }
}

TEST_F(StreamingStatusTest, AttachmentsCountAsPartOfTheirMessage) {
  Serve([](ServerBuilder& builder) { builder.SetMaxReceiveMessageSize(1000); });
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  EXPECT_TRUE(Echoes(*stream, NewItem(1, 400), Pattern(500, 1)));
  EXPECT_TRUE(stream->Write(NewItem(1, 500), Bytes(Pattern(500, 1))));
  Item item;
  EXPECT_FALSE(stream->Read(&item));
  ExpectStatus(stream->Finish(), absl::StatusCode::kResourceExhausted,
               "SetMaxReceiveMessageSize");
}

TEST_F(StreamingStatusTest, TheClientSaysWhatIsTooLongForIt) {
  Countdown cancelled(2);
  ChannelOptions options;
  options.max_receive_message_bytes = 1000;
  Serve({}, options);
  streams().set_list([&](ServerContext* context, auto* writer) {
    EXPECT_TRUE(writer->Write(NewItem(1, 900)));
    while (writer->Write(NewItem(2, 100000))) {
    }
    EXPECT_TRUE(context->IsCancelled());
    cancelled.Done();
    return absl::OkStatus();
  });
  for (int i = 0; i < 2; ++i) {
    ClientContext context;
    const auto reader = stub_->List(&context, ListRequest());
    Item item;
    EXPECT_TRUE(reader->Read(&item));
    EXPECT_FALSE(reader->Read(&item));
    ExpectStatus(reader->Finish(), absl::StatusCode::kResourceExhausted,
                 "max_receive_message_bytes");
  }
  cancelled.Wait();
  ExpectAllIsWell();
}

TEST_F(StreamingStatusTest, NothingIsSentThatIsTooLong) {
  ChannelOptions options;
  options.max_send_message_bytes = 1000;
  Serve([](ServerBuilder& builder) { builder.SetMaxSendMessageSize(2000); },
        options);
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  EXPECT_TRUE(Echoes(*stream, NewItem(1, 900)));
  EXPECT_FALSE(stream->Write(NewItem(2, 1000)));
  ExpectStatus(stream->Finish(), absl::StatusCode::kResourceExhausted,
               "max_send_message_bytes");
  ClientContext other;
  ListRequest request;
  request.set_count(1);
  request.set_payload_bytes(3000);
  const auto reader = stub_->List(&other, request);
  Item item;
  EXPECT_FALSE(reader->Read(&item));
  ExpectStatus(reader->Finish(), absl::StatusCode::kResourceExhausted,
               "SetMaxSendMessageSize");
  ExpectAllIsWell();
}

TEST_F(StreamingStatusTest, AMethodThatIsNotThereIsUnimplemented) {
  Connect();
  static constexpr MethodDescriptor method("verbena.end_to_end.Nobody/Talks");
  ClientContext context;
  const auto stream = BidiStreamingCall<Item, Item>(channel_, method, &context);
  Item item;
  EXPECT_FALSE(stream->Read(&item));
  ExpectStatus(stream->Finish(), absl::StatusCode::kUnimplemented,
               "verbena.end_to_end.Nobody/Talks");
  ExpectAllIsWell();
}

TEST_F(StreamingStatusTest, AUnaryCallOfAStreamingMethodIsRefusedInWords) {
  Connect();
  static constexpr MethodDescriptor method(
      "verbena.end_to_end.StreamService/Chat");
  ClientContext context;
  Item reply;
  const absl::Status status =
      BlockingUnaryCall(*channel_, method, &context, NewItem(1, 10), &reply);
  ExpectStatus(status, absl::StatusCode::kUnimplemented, "stream");
  EXPECT_THAT(std::string(status.message()), HasSubstr(method.full_name()));
  ExpectAllIsWell();
}

TEST_F(StreamingStatusTest, AStreamToAUnaryMethodIsRefusedInWords) {
  Connect();
  for (const MethodDescriptor& method :
       {MethodDescriptor("verbena.end_to_end.EndToEnd/Echo"),
        MethodDescriptor("verbena.end_to_end.Inline/Echo")}) {
    ClientContext context;
    const auto stream =
        BidiStreamingCall<EchoRequest, EchoReply>(channel_, method, &context);
    stream->Write(EchoRequest());
    EchoReply reply;
    EXPECT_FALSE(stream->Read(&reply));
    const absl::Status status = stream->Finish();
    ExpectStatus(status, absl::StatusCode::kUnimplemented, "stream");
    EXPECT_THAT(std::string(status.message()), HasSubstr(method.full_name()));
  }
  ExpectAllIsWell();
}

// The kinds of stream differ only by what the two sides say.
TEST_F(StreamingStatusTest, AServerStreamingMethodMissesItsRequest) {
  Connect();
  static constexpr MethodDescriptor method(
      "verbena.end_to_end.StreamService/List");
  ClientContext context;
  const auto stream =
      BidiStreamingCall<ListRequest, Item>(channel_, method, &context);
  EXPECT_TRUE(stream->WritesDone());
  ExpectStatus(stream->Finish(), absl::StatusCode::kInvalidArgument,
               method.full_name());
}

TEST_F(StreamingStatusTest, AClientStreamingMethodAnswersOnlyWithOk) {
  Serve();
  streams().set_record([](ServerContext*, auto* reader) {
    Item item;
    while (reader->Read(&item)) {
    }
    return absl::PermissionDeniedError("not you");
  });
  ClientContext context;
  Summary summary;
  const auto writer = stub_->Record(&context, &summary);
  EXPECT_TRUE(writer->Write(NewItem(1)));
  EXPECT_EQ(writer->Finish(), absl::PermissionDeniedError("not you"));
}

// The value of a `string` field must be UTF-8.
TEST_F(StreamingStatusTest, AResponseThatTheClientCannotParseIsInternal) {
  Connect();
  static constexpr MethodDescriptor method(
      "verbena.end_to_end.StreamService/Chat");
  ClientContext context;
  const auto stream =
      BidiStreamingCall<Item, FailRequest>(channel_, method, &context);
  Item item;
  item.set_payload("\xff");
  EXPECT_TRUE(stream->Write(item));
  FailRequest answer;
  EXPECT_FALSE(stream->Read(&answer));
  ExpectStatus(stream->Finish(), absl::StatusCode::kInternal, "can't parse");
  ExpectAllIsWell();
}

TEST_F(StreamingStatusTest, ARequestThatTheServerCannotParseIsInternal) {
  static constexpr MethodDescriptor method("test.Strict/Talk");
  class Strict final : public Service {
   public:
    Strict() : Service("test.Strict") {
      AddMethod(internal::NewTypedMethod<RpcType::kBidiStreaming, FailRequest,
                                         Nothing>(
          method.full_name(), [](ServerContext* context, auto* stream) {
            FailRequest request;
            EXPECT_FALSE(stream->Read(&request));
            // The client has not ended its stream.
            EXPECT_TRUE(context->IsCancelled());
            EXPECT_FALSE(stream->Read(&request));
            EXPECT_FALSE(stream->Write(Nothing()));
            return absl::OkStatus();
          }));
    }
  };
  Strict strict;
  Serve(
      [&strict](ServerBuilder& builder) { builder.RegisterService(&strict); });
  ClientContext context;
  const auto stream =
      BidiStreamingCall<Item, Nothing>(channel_, method, &context);
  Item item;
  item.set_payload("\xff");
  EXPECT_TRUE(stream->Write(item));
  Nothing answer;
  EXPECT_FALSE(stream->Read(&answer));
  ExpectStatus(stream->Finish(), absl::StatusCode::kInternal, "can't parse");
  ExpectAllIsWell();
  StopServer();
}

TEST_F(StreamingStatusTest, ASecondFinishReturnsTheSameStatus) {
  Serve();
  streams().set_chat([](ServerContext*, auto*) {
    return absl::OutOfRangeError("no such page");
  });
  ClientContext chat_context;
  const auto chat = stub_->Chat(&chat_context);
  ClientContext writer_context;
  Summary summary;
  const auto writer = stub_->Record(&writer_context, &summary);
  EXPECT_TRUE(writer->Write(NewItem(1, 10)));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(chat->Finish(), absl::OutOfRangeError("no such page")) << i;
    EXPECT_EQ(writer->Finish(), absl::OkStatus()) << i;
  }
  EXPECT_EQ(summary.count(), 1u);
}

TEST_F(StreamingStatusTest, AContextIsInOneStreamAtATime) {
  Connect();
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  const auto second = stub_->Chat(&context);
  Item item;
  EXPECT_FALSE(second->Read(&item));
  EXPECT_FALSE(second->Write(item));
  EXPECT_EQ(second->Finish().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Echoes(*stream, NewItem(1)));
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
}

}  // namespace
}  // namespace verbena::end_to_end
