// Long messages and attachments in streams, which go beside the frames.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/streaming_fixture.h"
#include "tests/integration/test_service.h"

namespace verbena::end_to_end {
namespace {

constexpr size_t kLongBytes = 1 << 20;

// Lengths on both sides of every bound, in an order in which the longest so far
// comes again and again.
constexpr size_t kLengths[] = {0,       100,     17'000,    30'000,  60'000,
                               200'000, 65'536,  1'000'000, 100'000, 3'000'000,
                               17'000,  500'000, 4'500'000, 8'192,   2'000'000};

class StreamingLongTest : public StreamingTest {
 protected:
  Buffer Filled(Buffer buffer, uint64_t seed) {
    const std::string bytes = Pattern(buffer.size(), seed);
    if (!bytes.empty()) std::memcpy(buffer.data(), bytes.data(), bytes.size());
    return buffer;
  }
  static std::string TextOf(const Buffer& buffer) {
    return std::string(reinterpret_cast<const char*>(buffer.data()),
                       buffer.size());
  }
  // As many items as there are lengths, with payloads or attachments of these.
  static constexpr uint64_t kItems = std::size(kLengths);
  static Item ItemOf(uint64_t number, bool beside) {
    return NewItem(number, beside ? 0 : kLengths[number]);
  }
  static std::string BesideOf(uint64_t number, bool beside) {
    return Pattern(beside ? kLengths[number] : 0, number);
  }
  // Whether that is the item of that number.
  static bool Is(uint64_t number, bool beside, const Item& item,
                 const Buffer& attachment) {
    return item.number() == number &&
           item.payload() == ItemOf(number, beside).payload() &&
           TextOf(attachment) == BesideOf(number, beside);
  }
  void ExpectUnaryCallsGoOn() {
    const auto unary = EndToEnd::NewStub(channel_);
    for (const size_t bytes : {100, 20'000, 1'000'000}) {
      EXPECT_EQ(EchoProblem(*unary, bytes, bytes), "");
    }
  }
};

TEST_F(StreamingLongTest, OfEveryLengthReachTheClient) {
  Serve();
  for (const bool beside : {false, true}) {
    streams().set_list([&](ServerContext* context, auto* writer) {
      for (int round = 0; round < 3; ++round) {
        for (uint64_t i = 0; i < kItems; ++i) {
          const Buffer attachment =
              Filled(context->AllocateBuffer(beside ? kLengths[i] : 0), i);
          EXPECT_TRUE(writer->Write(ItemOf(i, beside), attachment));
        }
      }
      return absl::OkStatus();
    });
    ClientContext context;
    const auto reader = stub_->List(&context, ListRequest());
    Item item;
    Buffer attachment;
    uint64_t read = 0;
    for (; reader->Read(&item, &attachment); ++read) {
      EXPECT_TRUE(Is(read % kItems, beside, item, attachment)) << read;
    }
    EXPECT_EQ(read, 3 * kItems);
    EXPECT_EQ(reader->Finish(), absl::OkStatus());
  }
}

TEST_F(StreamingLongTest, OfEveryLengthReachTheServer) {
  Serve();
  for (const bool beside : {false, true}) {
    std::atomic<uint64_t> read = 0;
    streams().set_record([&](ServerContext*, auto* reader) {
      Item item;
      Buffer attachment;
      for (; reader->Read(&item, &attachment); ++read) {
        EXPECT_TRUE(Is(read % kItems, beside, item, attachment)) << read;
      }
      return absl::OkStatus();
    });
    ClientContext context;
    Summary summary;
    const auto writer = stub_->Record(&context, &summary);
    for (uint64_t i = 0; i < 3 * kItems; ++i) {
      const uint64_t number = i % kItems;
      const Buffer attachment = Filled(
          channel_->AllocateBuffer(beside ? kLengths[number] : 0), number);
      ASSERT_TRUE(writer->Write(ItemOf(number, beside), attachment));
    }
    EXPECT_EQ(writer->Finish(), absl::OkStatus());
    EXPECT_EQ(read, 3 * kItems);
  }
}

// The bytes are the Buffer's still when the other side reads them, although its
// owner has dropped it.
TEST_F(StreamingLongTest, ABufferMayBeDroppedOnceItIsWritten) {
  Connect();
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  for (uint64_t i = 0; i < 20; ++i) {
    Buffer attachment = Filled(channel_->AllocateBuffer(kLongBytes), i);
    ASSERT_TRUE(stream->Write(NewItem(i), attachment));
    attachment.Reset();
    Item item;
    ASSERT_TRUE(stream->Read(&item, &attachment));
    EXPECT_EQ(item.number(), i);
    EXPECT_EQ(TextOf(attachment), Pattern(kLongBytes, i));
  }
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
}

// Neither a lease nor a READ can be had, so all goes in frames.
TEST_F(StreamingLongTest, GoOnWhenTheClientHasNoMemoryLeft) {
  ChannelOptions options;
  options.max_arena_bytes = 16 << 20;
  options.max_send_message_bytes = options.max_receive_message_bytes = 4 << 20;
  Serve({}, options);
  streams().set_list([](ServerContext*, auto* writer) {
    for (uint64_t i = 0; i < 40; ++i) {
      EXPECT_TRUE(writer->Write(NewItem(i), Bytes(Pattern(kLongBytes, i))));
    }
    return absl::OkStatus();
  });
  ClientContext context;
  const auto reader = stub_->List(&context, ListRequest());
  std::vector<Buffer> kept(40);
  Item item;
  for (uint64_t i = 0; i < kept.size(); ++i) {
    ASSERT_TRUE(reader->Read(&item, &kept[i]));
    EXPECT_EQ(item.number(), i);
  }
  for (uint64_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(TextOf(kept[i]), Pattern(kLongBytes, i));
  }
  EXPECT_FALSE(reader->Read(&item));
  EXPECT_EQ(reader->Finish(), absl::OkStatus());
}

TEST_F(StreamingLongTest, GoOnWhenTheHandlersHoldTheMemoryOfTheServer) {
  Serve([](ServerBuilder& builder) {
    builder.SetMaxReceiveMessageSize(4 << 20).SetMaxSendMessageSize(4 << 20);
    builder.SetMaxBulkBytes(16 << 20);
  });
  streams().set_record([](ServerContext*, auto* reader) {
    Item item;
    std::vector<Buffer> kept;
    Buffer attachment;
    // The handler keeps the last attachments, which take most of the memory.
    while (reader->Read(&item, &attachment)) {
      kept.push_back(std::move(attachment));
      if (kept.size() == 10) kept.erase(kept.begin());
    }
    return absl::OkStatus();
  });
  ClientContext context;
  Summary summary;
  const auto writer = stub_->Record(&context, &summary);
  for (uint64_t i = 0; i < 40; ++i) {
    ASSERT_TRUE(writer->Write(NewItem(i), Bytes(Pattern(kLongBytes, i))));
  }
  EXPECT_EQ(writer->Finish(), absl::OkStatus());
}

// The memory of the server holds one of them at a time.
TEST_F(StreamingLongTest, AHandlerThatReadsTheNextLetsGoOfTheLast) {
  constexpr size_t kBytes = 10 << 20;
  Serve([](ServerBuilder& builder) {
    builder.SetMaxReceiveMessageSize(12 << 20).SetMaxSendMessageSize(12 << 20);
    builder.SetMaxBulkBytes(16 << 20);
  });
  for (const bool beside : {false, true}) {
    uint64_t read = 0;
    streams().set_record([&](ServerContext*, auto* reader) {
      Item item;
      Buffer attachment;
      while (reader->Read(&item, &attachment)) {
        EXPECT_EQ(item.payload().size() + attachment.size(), kBytes);
        ++read;
      }
      return absl::OkStatus();
    });
    ClientContext context;
    Summary summary;
    const auto writer = stub_->Record(&context, &summary);
    for (uint64_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(writer->Write(NewItem(i, beside ? 0 : kBytes),
                                Bytes(Pattern(beside ? kBytes : 0, i))));
    }
    EXPECT_EQ(writer->Finish(), absl::OkStatus());
    EXPECT_EQ(read, 4u);
  }
}

// The channel has one call slot. It is free only when the server has ended the
// call before.
TEST_F(StreamingLongTest,
       ACallThatWasCancelledWhileItIsWrittenEndsAtTheServer) {
  ChannelOptions options;
  options.max_concurrent_calls = 1;
  Serve({}, options);
  streams().set_list([](ServerContext* context, auto* writer) {
    const Buffer attachment = context->AllocateBuffer(8 << 20);
    while (writer->Write(NewItem(1), attachment)) {
    }
    return absl::OkStatus();
  });
  for (int round = 0; round < 12; ++round) {
    ClientContext context;
    const auto reader = stub_->List(&context, ListRequest());
    Item item;
    Buffer attachment;
    for (int read = 0; read < 1 + round % 4; ++read) {
      ASSERT_TRUE(reader->Read(&item, &attachment)) << round;
    }
    context.TryCancel();
    EXPECT_EQ(reader->Finish().code(), absl::StatusCode::kCancelled);
  }
}

TEST_F(StreamingLongTest, AnAttachmentBeyondTheLimitIsRefused) {
  ChannelOptions options;
  options.max_send_message_bytes = 1 << 20;
  Connect(options);
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  EXPECT_FALSE(stream->Write(Item(), Bytes(Pattern((1 << 20) + 1, 1))));
  const absl::Status status = stream->Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("an attachment of 1048577 bytes"),
            std::string::npos)
      << status;
}

TEST_F(StreamingLongTest, ReadersThatStopLeaveMemoryToOthers) {
  constexpr size_t kIdle = 40;
  Serve([](ServerBuilder& builder) {
    builder.SetMaxReceiveMessageSize(2 << 20).SetMaxSendMessageSize(2 << 20);
    builder.SetMaxBulkBytes(32 << 20);
  });
  streams().set_list([](ServerContext*, auto* writer) {
    const std::string beside = Pattern(kLongBytes, 1);
    while (writer->Write(NewItem(1), Bytes(beside))) {
    }
    return absl::OkStatus();
  });
  std::array<ClientContext, kIdle> contexts;
  std::array<std::unique_ptr<ClientReader<Item>>, kIdle> readers;
  Item item;
  Buffer attachment;
  for (size_t i = 0; i < kIdle; ++i) {
    readers[i] = stub_->List(&contexts[i], ListRequest());
    for (int read = 0; read < 3; ++read) {
      ASSERT_TRUE(readers[i]->Read(&item, &attachment));
      EXPECT_EQ(attachment.size(), kLongBytes);
    }
  }
  attachment.Reset();
  ExpectUnaryCallsGoOn();
  ASSERT_TRUE(readers[kIdle / 2]->Read(&item, &attachment));
  EXPECT_EQ(TextOf(attachment), Pattern(kLongBytes, 1));
  for (ClientContext& context : contexts) context.TryCancel();
  for (auto& reader : readers) {
    EXPECT_EQ(reader->Finish().code(), absl::StatusCode::kCancelled);
  }
  ExpectUnaryCallsGoOn();
}

TEST_F(StreamingLongTest, HandlersThatDoNotReadLeaveMemoryToOthers) {
  constexpr size_t kIdle = 40;
  Serve([](ServerBuilder& builder) {
    builder.SetMaxReceiveMessageSize(2 << 20).SetMaxSendMessageSize(2 << 20);
    builder.SetMaxBulkBytes(32 << 20);
  });
  Countdown go_on(1);
  streams().set_record([&](ServerContext*, auto* reader) {
    go_on.Wait();
    Item item;
    Buffer attachment;
    while (reader->Read(&item, &attachment)) {
      EXPECT_EQ(TextOf(attachment), Pattern(kLongBytes, item.number()));
    }
    return absl::OkStatus();
  });
  std::array<ClientContext, kIdle> contexts;
  std::array<Summary, kIdle> summaries;
  std::array<std::unique_ptr<ClientWriter<Item>>, kIdle> writers;
  for (size_t i = 0; i < kIdle; ++i) {
    writers[i] = stub_->Record(&contexts[i], &summaries[i]);
    for (uint64_t number = 0; number < 2; ++number) {
      ASSERT_TRUE(writers[i]->Write(NewItem(number),
                                    Bytes(Pattern(kLongBytes, number))));
    }
  }
  ExpectUnaryCallsGoOn();
  go_on.Done();
  for (auto& writer : writers) {
    EXPECT_EQ(writer->Finish(), absl::OkStatus());
  }
  ExpectUnaryCallsGoOn();
}

TEST_F(StreamingLongTest, WithChecksumsOrRevokedLeasesArriveToo) {
  for (const bool checksum : {false, true}) {
    ChannelOptions options;
    options.checksum = checksum;
    options.revoke_leases = !checksum;
    Connect(options);
    ClientContext context;
    const auto stream = stub_->Chat(&context);
    for (uint64_t i = 0; i < 10; ++i) {
      ASSERT_TRUE(
          Echoes(*stream, NewItem(i, i * 100'000), Pattern(i * 50'000, i)));
    }
    EXPECT_TRUE(stream->WritesDone());
    EXPECT_EQ(stream->Finish(), absl::OkStatus());
  }
}

}  // namespace
}  // namespace verbena::end_to_end
