// Streaming calls whose two sides get on with each other.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/streaming_fixture.h"
#include "tests/integration/test_service.h"
#include "transport/base/limits.h"

namespace verbena::end_to_end {
namespace {

// Reads all of a List, and expects it to be what was asked for.
void ExpectLists(StreamService::Stub& stub, uint64_t count,
                 size_t payload_bytes, size_t attachment_bytes) {
  ClientContext context;
  ListRequest request;
  request.set_count(count);
  request.set_payload_bytes(payload_bytes);
  request.set_attachment_bytes(attachment_bytes);
  const auto reader = stub.List(&context, request);
  Item item;
  Buffer attachment;
  uint64_t read = 0;
  for (; reader->Read(&item, &attachment); ++read) {
    ASSERT_EQ(item.number(), read);
    ASSERT_EQ(item.payload(), Pattern(payload_bytes, read));
    ASSERT_EQ(attachment.span(), Bytes(Pattern(attachment_bytes, read)));
  }
  EXPECT_EQ(read, count);
  EXPECT_EQ(reader->Finish(), absl::OkStatus());
}

void ExpectRecords(StreamService::Stub& stub, uint64_t count,
                   size_t payload_bytes, size_t attachment_bytes) {
  ClientContext context;
  Summary summary;
  const auto writer = stub.Record(&context, &summary);
  const std::string attachment = Pattern(attachment_bytes, 1);
  for (uint64_t i = 0; i < count; ++i) {
    ASSERT_TRUE(writer->Write(NewItem(i, payload_bytes), Bytes(attachment)));
  }
  ASSERT_EQ(writer->Finish(), absl::OkStatus());
  EXPECT_EQ(summary.count(), count);
  EXPECT_TRUE(summary.in_order());
  EXPECT_EQ(summary.payload_bytes(), count * payload_bytes);
  EXPECT_EQ(summary.attachment_bytes(), count * attachment_bytes);
}

TEST_F(StreamingTest, AServerSendsAnyNumberOfMessages) {
  Connect();
  for (const uint64_t count : {0, 1, 2, 1000}) {
    ExpectLists(*stub_, count, 100, 0);
  }
}

TEST_F(StreamingTest, AClientSendsAnyNumberOfMessages) {
  Connect();
  for (const uint64_t count : {0, 1, 2, 1000}) {
    ExpectRecords(*stub_, count, 100, 0);
  }
}

TEST_F(StreamingTest, QuestionsAndAnswersTakeTurnsInOneCall) {
  Connect();
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(Echoes(*stream, NewItem(i, 64)));
  }
  EXPECT_TRUE(stream->WritesDone());
  Item item;
  EXPECT_FALSE(stream->Read(&item));
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
}

TEST_F(StreamingTest, AMessageMayHaveNoBytes) {
  Connect();
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Echoes(*stream, Item()));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Echoes(*stream, Item(), "beside"));
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
}

// Around a frame and around a window every length, beyond that some.
TEST_F(StreamingTest, MessagesOfAllSizesComeBack) {
  Connect();
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  uint64_t number = 0;
  for (const size_t bytes : {size_t{transport::kBufferBytes},
                             size_t{transport::kStreamWindowBytes}}) {
    for (size_t less = 0; less <= 64; ++less) {
      ASSERT_TRUE(Echoes(*stream, NewItem(++number, bytes + 8 - less)))
          << bytes + 8 - less;
    }
  }
  for (const size_t bytes :
       {1, 100, 5000, 16 << 10, 100000, 1 << 20, 4 << 20, 1, 3 << 20, 0}) {
    ASSERT_TRUE(Echoes(*stream, NewItem(++number, bytes))) << bytes;
  }
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
}

TEST_F(StreamingTest, EachMessageMayHaveAnAttachment) {
  Connect();
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  uint64_t number = 0;
  for (const size_t payload : {0, 10, 8100, 70000}) {
    for (const size_t bytes : {0, 1, 63, 8000, 8192, 65528, 65536, 1 << 20}) {
      const std::string attachment = Pattern(bytes, ++number);
      ASSERT_TRUE(Echoes(*stream, NewItem(number, payload), attachment))
          << payload << " and " << bytes;
    }
  }
  EXPECT_TRUE(Echoes(*stream, NewItem(++number), Pattern(4 << 20, 1)));
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
  ExpectLists(*stub_, 100, 100, 20000);
  ExpectRecords(*stub_, 100, 100, 20000);
}

TEST_F(StreamingTest, LargeMessagesFollowEachOther) {
  Connect();
  ExpectLists(*stub_, 8, 1 << 20, 0);
  ExpectLists(*stub_, 2, 4 << 20, 0);
  ExpectRecords(*stub_, 8, 1 << 20, 0);
  ExpectRecords(*stub_, 2, 4 << 20, 0);
}

TEST_F(StreamingTest, AHundredThousandMessagesKeepTheirOrderBothWays) {
  constexpr uint64_t kCount = 100000;
  Connect();
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  std::thread writer([&stream] {
    Item item;
    for (uint64_t i = 0; i < kCount; ++i) {
      item.set_number(i);
      ASSERT_TRUE(stream->Write(item));
    }
    EXPECT_TRUE(stream->WritesDone());
  });
  Item item;
  uint64_t read = 0;
  while (stream->Read(&item) && item.number() == read) ++read;
  EXPECT_EQ(read, kCount);
  writer.join();
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
}

TEST_F(StreamingTest, ManyStreamsShareAConnectionWithUnaryCalls) {
  Connect();
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < 16; ++thread) {
    threads.emplace_back([this, thread] {
      ClientContext context;
      const auto stream = stub_->Chat(&context);
      for (size_t i = 0; i < 50; ++i) {
        ASSERT_TRUE(Echoes(*stream, NewItem(i, thread * i * 20)));
      }
      EXPECT_TRUE(stream->WritesDone());
      EXPECT_EQ(stream->Finish(), absl::OkStatus());
      ExpectLists(*stub_, 20, thread * 1000, 0);
      ExpectRecords(*stub_, 20, thread * 1000, 0);
    });
  }
  const auto unary = EndToEnd::NewStub(channel_);
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(EchoProblem(*unary, i * 1000, i), "");
  }
  for (std::thread& thread : threads) thread.join();
}

// More streams than a connection may have open, one after another.
TEST_F(StreamingTest, HundredsOfStreamsFollowEachOther) {
  Connect();
  for (uint64_t i = 0; i < 300; ++i) ExpectRecords(*stub_, 3, 10, 0);
}

TEST_F(StreamingTest, AnAnswerMayFollowTheLastQuestion) {
  Serve();
  streams().set_chat([](ServerContext* context, auto* stream) {
    Item item;
    uint64_t count = 0;
    while (stream->Read(&item)) ++count;
    EXPECT_FALSE(stream->Read(&item));
    EXPECT_FALSE(context->IsCancelled());
    for (uint64_t i = 0; i < count; ++i) {
      EXPECT_TRUE(stream->Write(NewItem(i, 100)));
    }
    return absl::OkStatus();
  });
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  for (uint64_t i = 0; i < 100; ++i) EXPECT_TRUE(stream->Write(NewItem(i)));
  EXPECT_TRUE(stream->WritesDone());
  Item item;
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(stream->Read(&item));
    EXPECT_EQ(item.number(), i);
  }
  EXPECT_FALSE(stream->Read(&item));
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
}

TEST_F(StreamingTest, AServerMaySendBeforeTheClientDoes) {
  Serve();
  streams().set_chat([](ServerContext*, auto* stream) {
    Item item;
    for (uint64_t i = 0; i < 100; ++i) {
      EXPECT_TRUE(stream->Write(NewItem(i)));
      EXPECT_TRUE(stream->Read(&item));
      EXPECT_EQ(item.number(), i + 1);
    }
    return absl::OkStatus();
  });
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  Item item;
  while (stream->Read(&item)) {
    item.set_number(item.number() + 1);
    stream->Write(item);
  }
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
}

TEST_F(StreamingTest, HandlersMayBlockWhereServicesAreInline) {
  Serve([](ServerBuilder& builder) {
    builder.SetHandlerMode(HandlerMode::kInline);
  });
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  ASSERT_TRUE(Echoes(*stream, NewItem(1)));
  // Its handler waits for another message now.
  const auto unary = Inline::NewStub(channel_);
  EXPECT_EQ(EchoProblem(*unary, 100, 1), "");
  ExpectLists(*stub_, 100, 100, 0);
  ExpectRecords(*stub_, 100, 100, 0);
  ASSERT_TRUE(Echoes(*stream, NewItem(2)));
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
}

TEST_F(StreamingTest, MessagesTravelWithChecksumsToo) {
  for (const bool server_wants : {true, false}) {
    ChannelOptions options;
    options.checksum = !server_wants;
    Serve([server_wants](
              ServerBuilder& builder) { builder.SetChecksum(server_wants); },
          options);
    ClientContext context;
    const auto stream = stub_->Chat(&context);
    for (const size_t bytes : {0, 1, 8150, 100000, 1 << 20}) {
      ASSERT_TRUE(Echoes(*stream, NewItem(bytes, bytes), Pattern(bytes, 3)));
    }
    EXPECT_TRUE(stream->WritesDone());
    EXPECT_EQ(stream->Finish(), absl::OkStatus());
    stub_.reset();
    channel_.reset();
    StopServer();
  }
}

TEST_F(StreamingTest, AStreamKeepsItsChannel) {
  Connect();
  ClientContext context;
  auto stream = stub_->Chat(&context);
  stub_.reset();
  channel_.reset();
  EXPECT_TRUE(Echoes(*stream, NewItem(1, 10000)));
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
}

TEST_F(StreamingTest, AContextServesOneStreamAfterAnother) {
  Connect();
  ClientContext context;
  for (uint64_t i = 0; i < 3; ++i) {
    const auto stream = stub_->Chat(&context);
    EXPECT_TRUE(Echoes(*stream, NewItem(i)));
    EXPECT_TRUE(stream->WritesDone());
    EXPECT_EQ(stream->Finish(), absl::OkStatus());
    EXPECT_EQ(context.peer(), target());
  }
}

}  // namespace
}  // namespace verbena::end_to_end
