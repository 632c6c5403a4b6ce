// Calls through a proxy that knows no .proto, examples/generic_proxy.

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "examples/generic_proxy/forwarder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/generic_stub.h"
#include "rpc/rpc.h"
#include "rpc/status_details.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/streaming_fixture.h"
#include "tests/integration/test_service.h"

namespace verbena::end_to_end {
namespace {

using testing::HasSubstr;

class ForwardingTest : public EndToEndTest {
 protected:
  ForwardingTest() {
    StartServer();
    forwarder_ = std::make_unique<generic_proxy::Forwarder>(NewChannel());
    ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(Address(0), &port);
    builder.RegisterGenericService(forwarder_.get());
    proxy_ = builder.BuildAndStart();
    EXPECT_EQ(proxy_.status(), absl::OkStatus());
    channel_ = CreateChannel(Address(port));
    stub_ = EndToEnd::NewStub(channel_);
    stream_stub_ = StreamService::NewStub(channel_);
    context_.set_timeout(absl::Minutes(2));
  }

  std::unique_ptr<generic_proxy::Forwarder> forwarder_;
  absl::StatusOr<std::unique_ptr<Server>> proxy_;
  std::shared_ptr<Channel> channel_;
  std::unique_ptr<EndToEnd::Stub> stub_;
  std::unique_ptr<StreamService::Stub> stream_stub_;
  ClientContext context_;
};

TEST_F(ForwardingTest, EchoesOfAllSizesComeBack) {
  for (const size_t bytes : {0, 1, 1000, 8000, 20000, 1000000}) {
    EXPECT_EQ(EchoProblem(*stub_, bytes, 3), "") << bytes;
  }
}

TEST_F(ForwardingTest, AttachmentsAndMetadataGoBothWays) {
  const std::string attachment = Pattern(100000, 5);
  context_.set_request_attachment(Bytes(attachment));
  EchoReply reply;
  ASSERT_EQ(stub_->Echo(&context_, EchoRequest(), &reply), absl::OkStatus());
  EXPECT_EQ(context_.response_attachment(), Bytes(attachment));

  ClientContext context;
  context.AddMetadata("trace", "1234");
  context.AddMetadata("trace", std::string("\0\xff", 2));
  Description description;
  ASSERT_EQ(stub_->Describe(&context, Nothing(), &description),
            absl::OkStatus());
  ASSERT_EQ(description.metadata_size(), 2);
  EXPECT_EQ(description.metadata(0), "trace=1234");
  EXPECT_EQ(description.metadata(1), std::string("trace=\0\xff", 8));
  EXPECT_EQ(context.GetServerTrailingMetadata(), context.metadata());
}

TEST_F(ForwardingTest, ErrorsAndDeadlinesArePassedOn) {
  FailRequest fail;
  fail.set_code(static_cast<int>(absl::StatusCode::kDataLoss));
  fail.set_message("as asked");
  Nothing nothing;
  EXPECT_EQ(stub_->Fail(&context_, fail, &nothing),
            absl::DataLossError("as asked"));
  Description description;
  ASSERT_EQ(stub_->Describe(&context_, nothing, &description),
            absl::OkStatus());
  EXPECT_GT(description.remaining_us(), 0);
  ClientContext without_deadline;
  ASSERT_EQ(stub_->Describe(&without_deadline, nothing, &description),
            absl::OkStatus());
  EXPECT_EQ(description.remaining_us(), -1);
}

TEST_F(ForwardingTest, LongStatusMessagesArePassedOn) {
  const std::string message(7000, 'm');
  for (const char* detail : {"", "which"}) {
    FailRequest fail;
    fail.set_code(static_cast<int>(absl::StatusCode::kDataLoss));
    fail.set_message(message);
    fail.set_detail(detail);
    Nothing nothing;
    const absl::Status status = stub_->Fail(&context_, fail, &nothing);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_TRUE(status.message() == message);
    EXPECT_EQ(GetStatusDetail<Key>(status).has_value(), *detail != '\0');
  }
}

TEST_F(ForwardingTest, AMethodThatTheBackendDoesNotHaveIsNamed) {
  EchoReply reply;
  const absl::Status status =
      Unregistered::NewStub(channel_)->Echo(&context_, EchoRequest(), &reply);
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("verbena.end_to_end.Unregistered/Echo"));
}

TEST_F(ForwardingTest, CancellationReachesTheBackend) {
  const auto blocked = Block(stub_.get(), "forwarded");
  service().AwaitBlocked("forwarded");
  blocked->context.TryCancel();
  blocked->thread.join();
  EXPECT_TRUE(absl::IsCancelled(blocked->status)) << blocked->status;
  EXPECT_EQ(service().AwaitOutcome("forwarded"), "cancelled");
}

TEST_F(ForwardingTest, StreamsOfAllKindsComeThrough) {
  constexpr uint64_t kItems = 300;
  ListRequest list;
  list.set_count(kItems);
  list.set_payload_bytes(2000);
  list.set_attachment_bytes(100);
  const auto reader = stream_stub_->List(&context_, list);
  Item item;
  Buffer attachment;
  for (uint64_t i = 0; i < kItems; ++i) {
    ASSERT_TRUE(reader->Read(&item, &attachment));
    ASSERT_EQ(item.payload(), Pattern(2000, i));
    ASSERT_EQ(attachment.span(), Bytes(Pattern(100, i)));
  }
  EXPECT_FALSE(reader->Read(&item));
  EXPECT_EQ(reader->Finish(), absl::OkStatus());

  ClientContext record_context;
  Summary summary;
  const auto writer = stream_stub_->Record(&record_context, &summary);
  for (uint64_t i = 0; i < kItems; ++i) {
    ASSERT_TRUE(writer->Write(NewItem(i, 2000)));
  }
  ASSERT_EQ(writer->Finish(), absl::OkStatus());
  EXPECT_EQ(summary.count(), kItems);
  EXPECT_TRUE(summary.in_order());

  ClientContext chat_context;
  const auto chat = stream_stub_->Chat(&chat_context);
  for (uint64_t i = 0; i < kItems; ++i) {
    ASSERT_TRUE(Echoes(*chat, NewItem(i, 2000), "beside"));
  }
  chat->WritesDone();
  EXPECT_EQ(chat->Finish(), absl::OkStatus());
}

TEST_F(ForwardingTest, LongMessagesOfAStreamComeThroughBothWaysAtOnce) {
  constexpr uint64_t kItems = 5;
  constexpr size_t kBytes = 3000000;
  const auto chat = stream_stub_->Chat(&context_);
  std::thread writer([&chat] {
    for (uint64_t i = 0; i < kItems; ++i) {
      EXPECT_TRUE(chat->Write(NewItem(i, kBytes)));
    }
    chat->WritesDone();
  });
  Item item;
  for (uint64_t i = 0; i < kItems; ++i) {
    EXPECT_TRUE(chat->Read(&item));
    EXPECT_EQ(item.payload(), Pattern(kBytes, i));
  }
  writer.join();
  EXPECT_EQ(chat->Finish(), absl::OkStatus());
}

// The client has sent nothing, nor said that it has sent all.
TEST_F(ForwardingTest, ABackendThatEndsAStreamEarlyEndsItForTheClient) {
  streams().set_chat([](ServerContext*, ServerReaderWriter<Item, Item>*) {
    return absl::AbortedError("enough");
  });
  const auto chat = stream_stub_->Chat(&context_);
  Item item;
  EXPECT_FALSE(chat->Read(&item));
  EXPECT_EQ(chat->Finish(), absl::AbortedError("enough"));
}

TEST_F(ForwardingTest, AStreamThatIsCancelledEndsAtTheBackend) {
  Countdown cancelled(1);
  streams().set_chat(
      [&](ServerContext* context, ServerReaderWriter<Item, Item>* stream) {
        Item item;
        while (stream->Read(&item)) stream->Write(item);
        if (context->IsCancelled()) cancelled.Done();
        return absl::OkStatus();
      });
  const auto chat = stream_stub_->Chat(&context_);
  ASSERT_TRUE(Echoes(*chat, NewItem(1)));
  context_.TryCancel();
  EXPECT_TRUE(absl::IsCancelled(chat->Finish()));
  cancelled.Wait();
}

}  // namespace
}  // namespace verbena::end_to_end
