// Streams whose reader does not read: they stop, and nothing else does.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/streaming_fixture.h"
#include "tests/integration/test_service.h"
#include "transport/base/clock.h"
#include "transport/base/limits.h"

namespace verbena::end_to_end {
namespace {

constexpr size_t kItemBytes = 16 << 10;

// Far more items than may be under way.
constexpr uint64_t kItems = 512;

// Number of items by which a writer may be ahead of a reader, generously.
constexpr uint64_t kMostAhead =
    (transport::kMaxStreamWindowBytes + (512 << 10)) / kItemBytes;
static_assert(kMostAhead < kItems / 2);

class StreamingFlowTest : public StreamingTest {
 protected:
  // Has List write kItems, and count those of each call: the first call's are
  // written(0).
  void ServeItems(const std::function<void(ServerBuilder&)>& change = {}) {
    Serve(change);
    streams().set_list([this](ServerContext*, auto* writer) {
      std::atomic<uint64_t>& written = written_.at(calls_++);
      Item item = NewItem(0, kItemBytes);
      for (uint64_t i = 0; i < kItems; ++i) {
        item.set_number(i);
        if (!writer->Write(item)) {
          return absl::AbortedError("nobody reads");
        }
        ++written;
      }
      return absl::OkStatus();
    });
  }
  uint64_t written(size_t call) { return written_.at(call); }

  // Reads items `from`, `from` + 1, ... to the end.
  static void ExpectTheRest(ClientReader<Item>& reader, uint64_t from) {
    Item item;
    while (reader.Read(&item)) {
      EXPECT_EQ(item.number(), from);
      EXPECT_EQ(item.payload().size(), kItemBytes);
      ++from;
    }
    EXPECT_EQ(from, kItems);
    EXPECT_EQ(reader.Finish(), absl::OkStatus());
  }

  void ExpectUnaryCallsGoOn() {
    const auto unary = EndToEnd::NewStub(channel_);
    for (size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(EchoProblem(*unary, i * 1000, i), "");
    }
  }

 private:
  std::atomic<size_t> calls_{0};
  std::array<std::atomic<uint64_t>, 100> written_ = {};
};

TEST_F(StreamingFlowTest, AClientThatDoesNotReadStopsOnlyItsOwnStream) {
  ServeItems();
  ClientContext idle_context;
  const auto idle = stub_->List(&idle_context, ListRequest());
  Item item;
  ASSERT_TRUE(idle->Read(&item));
  // Another stream of the connection carries all its items meanwhile.
  ClientContext context;
  const auto reader = stub_->List(&context, ListRequest());
  ExpectTheRest(*reader, 0);
  ExpectUnaryCallsGoOn();
  EXPECT_GT(written(0), 0u);
  EXPECT_LT(written(0), kMostAhead);
  ExpectTheRest(*idle, 1);
}

TEST_F(StreamingFlowTest, ManyThatDoNotReadKeepLittleEach) {
  constexpr size_t kIdle = 64;
  ServeItems();
  ClientContext contexts[kIdle];
  std::unique_ptr<ClientReader<Item>> readers[kIdle];
  Item item;
  for (size_t i = 0; i < kIdle; ++i) {
    readers[i] = stub_->List(&contexts[i], ListRequest());
    ASSERT_TRUE(readers[i]->Read(&item));
  }
  ClientContext context;
  ExpectTheRest(*stub_->List(&context, ListRequest()), 0);
  // Their windows have had no reason to grow.
  for (size_t i = 0; i < kIdle; ++i) {
    EXPECT_LE(written(i) * kItemBytes, uint64_t{512} << 10);
  }
  ExpectTheRest(*readers[kIdle / 2], 1);
}

TEST_F(StreamingFlowTest, AHandlerThatDoesNotReadStopsOnlyItsOwnStream) {
  Serve();
  Countdown reading(1);
  Countdown go_on(1);
  streams().set_record([&](ServerContext*, auto* reader) {
    Item item;
    EXPECT_TRUE(reader->Read(&item));
    const bool idle = item.number() == 1;
    if (idle) {
      reading.Done();
      go_on.Wait();
    }
    uint64_t count = 1;
    while (reader->Read(&item)) {
      EXPECT_EQ(item.payload().size(), kItemBytes);
      ++count;
    }
    EXPECT_EQ(count, kItems);
    return absl::OkStatus();
  });
  std::atomic<uint64_t> written = 0;
  ClientContext idle_context;
  Summary idle_summary;
  const auto idle = stub_->Record(&idle_context, &idle_summary);
  std::thread writer([&] {
    const Item item = NewItem(1, kItemBytes);
    while (written < kItems && idle->Write(item)) ++written;
  });
  reading.Wait();
  ClientContext context;
  Summary summary;
  const auto other = stub_->Record(&context, &summary);
  const Item item = NewItem(2, kItemBytes);
  for (uint64_t i = 0; i < kItems; ++i) ASSERT_TRUE(other->Write(item));
  EXPECT_EQ(other->Finish(), absl::OkStatus());
  ExpectUnaryCallsGoOn();
  EXPECT_LT(written, kMostAhead);
  go_on.Done();
  writer.join();
  EXPECT_EQ(written, kItems);
  EXPECT_EQ(idle->Finish(), absl::OkStatus());
}

TEST_F(StreamingFlowTest, OneThatGoesOnToReadFindsALongMessageBehindAShortOne) {
  Serve();
  streams().set_list([](ServerContext*, auto* writer) {
    EXPECT_TRUE(writer->Write(NewItem(1, 10)));
    EXPECT_TRUE(writer->Write(NewItem(2, 4 << 20)));
    EXPECT_TRUE(writer->Write(NewItem(3, 10)));
    return absl::OkStatus();
  });
  ClientContext context;
  const auto reader = stub_->List(&context, ListRequest());
  ExpectUnaryCallsGoOn();
  Item item;
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(reader->Read(&item));
    EXPECT_EQ(item.payload(), Pattern(i == 2 ? 4 << 20 : 10, i));
    ExpectUnaryCallsGoOn();
  }
  EXPECT_FALSE(reader->Read(&item));
  EXPECT_EQ(reader->Finish(), absl::OkStatus());
}

TEST_F(StreamingFlowTest, FinishDropsWhatWasNotRead) {
  ServeItems();
  ClientContext context;
  const auto reader = stub_->List(&context, ListRequest());
  Item item;
  ASSERT_TRUE(reader->Read(&item));
  EXPECT_EQ(reader->Finish(), absl::OkStatus());
  EXPECT_EQ(written(0), kItems);
  EXPECT_FALSE(reader->Read(&item));
}

TEST_F(StreamingFlowTest, FinishDropsLongMessages) {
  Serve();
  streams().set_list([](ServerContext*, auto* writer) {
    for (uint64_t i = 0; i < 6; ++i) {
      EXPECT_TRUE(writer->Write(NewItem(i, 4 << 20)));
    }
    return absl::OutOfRangeError("no more");
  });
  ClientContext context;
  const auto reader = stub_->List(&context, ListRequest());
  EXPECT_EQ(reader->Finish(), absl::OutOfRangeError("no more"));
}

Task<void> ReadOneAndFinish(StreamService::Stub* stub) {
  ClientContext context;
  auto reader = stub->co()->List(&context, ListRequest());
  Item item;
  EXPECT_TRUE(co_await reader.Read(&item));
  EXPECT_EQ(co_await reader.Finish(), absl::OkStatus());
}

TEST_F(StreamingFlowTest, ACoroutinesFinishDropsWhatWasNotRead) {
  ServeItems();
  SyncWait(ReadOneAndFinish(stub_.get()));
  EXPECT_EQ(written(0), kItems);
}

// The handler writes back what the client does not read, so it does not read
// what the client writes.
TEST_F(StreamingFlowTest, TwoSidesThatWaitForEachOtherCanBeCancelled) {
  Serve();
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  std::atomic<uint64_t> written = 0;
  std::thread writer([&] {
    const Item item = NewItem(1, kItemBytes);
    while (stream->Write(item)) ++written;
  });
  ExpectUnaryCallsGoOn();
  context.TryCancel();
  writer.join();
  EXPECT_LT(written, 2 * kMostAhead);
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kCancelled);
  ExpectUnaryCallsGoOn();
}

TEST_F(StreamingFlowTest, ShortMessagesPassLongOnesOfOtherStreams) {
  Serve();
  streams().set_list([](ServerContext*, auto* writer) {
    const Item item = NewItem(1, 16 << 20);
    while (writer->Write(item)) {
    }
    return absl::OkStatus();
  });
  ClientContext long_context;
  const auto longs = stub_->List(&long_context, ListRequest());
  std::thread reader([&longs] {
    Item item;
    while (longs->Read(&item)) {
    }
  });
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(Echoes(*stream, NewItem(i, 100)));
  }
  long_context.TryCancel();
  reader.join();
  EXPECT_EQ(longs->Finish().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
}

// A server does not wait for ever for a client, but streams are no work that
// the client keeps from being done.
TEST_F(StreamingFlowTest, OneThatStopsReadingIsNotTakenForStalled) {
  ServeItems([](ServerBuilder& builder) {
    builder.SetStallTimeout(absl::Seconds(2));
  });
  ClientContext context;
  const auto idle = stub_->List(&context, ListRequest());
  Item item;
  ASSERT_TRUE(idle->Read(&item));
  const absl::Time enough = base::Now() + absl::Seconds(3);
  while (base::Now() < enough) ExpectUnaryCallsGoOn();
  ExpectTheRest(*idle, 1);
}

}  // namespace
}  // namespace verbena::end_to_end
