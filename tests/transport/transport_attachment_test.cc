// Bytes beside the message, of every size, from every kind of memory.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/transport/transport_fixture.h"
#include "transport/base/buffer.h"
#include "transport/base/limits.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

constexpr uint32_t kFrameRoom = kBufferBytes - sizeof(RequestHeader);

class TransportAttachmentTest : public TransportFixture {
 protected:
  TransportAttachmentTest() : client_(server_.address()) {}

  // Echoes both, the attachment from plain memory and from the connection's.
  void ExpectEcho(size_t message, size_t attachment,
                  TestMethod method = TestMethod::kEcho, uint64_t hint = 0) {
    SCOPED_TRACE(absl::StrCat(message, " and ", attachment, " bytes"));
    const std::string bytes = TestBytes(attachment, 77);
    for (const bool registered : {false, true}) {
      TestCall::Options options = With(method, hint);
      if (!registered) options.attachment = bytes;
      TestCall call(TestBytes(message), std::move(options));
      if (registered) call.set_attachment(Filled(bytes));
      ASSERT_EQ(client_.Run(call), absl::OkStatus());
      EXPECT_TRUE(call.reply() == call.sent());
      EXPECT_TRUE(call.reply_attachment() == bytes);
      EXPECT_EQ(call.ends(), 1);
    }
  }

  Buffer Filled(const std::string& bytes) {
    Buffer buffer = client_.connection().buffer_source().Allocate(bytes.size());
    std::copy(bytes.begin(), bytes.end(), buffer.data());
    return buffer;
  }

  TestClient client_;
};

TEST_F(TransportAttachmentTest, ComeBackWhateverTheirSize) {
  for (const size_t bytes :
       {1, 64, 4096, 8000, 8192, 65536, 1 << 20, 5 << 20}) {
    ExpectEcho(0, bytes);
    ExpectEcho(20, bytes);
  }
}

TEST_F(TransportAttachmentTest, ComeBackAroundWhatFitsAFrame) {
  for (const size_t message : {0u, 100u, kFrameRoom - 3, kFrameRoom - 1}) {
    const size_t left = kFrameRoom - message;
    // The header of a reply is shorter by 32 bytes.
    for (const size_t attachment :
         {left - 1, left, left + 1, left + 31, left + 32, left + 33}) {
      ExpectEcho(message, attachment);
    }
  }
}

TEST_F(TransportAttachmentTest, ComeBackBesideLargeMessages) {
  for (const size_t message : {8129, 10000, 10048, 1 << 20, 3 << 20}) {
    for (const size_t attachment : {1, 100, 8000, 10000, 1 << 20, 2 << 20}) {
      ExpectEcho(message, attachment);
    }
  }
}

TEST_F(TransportAttachmentTest, ComeBackWithAHintOfTheirSize) {
  for (const size_t attachment : {100, 65536, 1 << 20}) {
    for (const size_t message : {0, 20, 10000}) {
      for (const uint64_t hint :
           {uint64_t{9000}, uint64_t{message + attachment},
            uint64_t{8 << 20}}) {
        ExpectEcho(message, attachment, TestMethod::kEcho, hint);
      }
    }
  }
}

TEST_F(TransportAttachmentTest, AreFinishedByOtherThreads) {
  for (const size_t attachment : {100, 9000, 1 << 20}) {
    ExpectEcho(10, attachment, TestMethod::kEchoWorker);
    ExpectEcho(100000, attachment, TestMethod::kEchoWorker);
  }
}

TEST_F(TransportAttachmentTest, MayBeSentBackFromPlainMemory) {
  for (const size_t bytes : {0, 1, 8000, 8192, 100000, 3 << 20}) {
    TestCall call(absl::StrCat(bytes), With(TestMethod::kAttach));
    ASSERT_EQ(client_.Run(call), absl::OkStatus());
    EXPECT_TRUE(call.reply_attachment() == TestBytes(bytes)) << bytes;
    EXPECT_EQ(call.reply(), "");
  }
}

TEST_F(TransportAttachmentTest, MayBeDroppedByTheHandler) {
  for (const size_t bytes : {100, 100000}) {
    for (int i = 0; i < 20; ++i) {
      TestCall::Options options = With(TestMethod::kDiscard);
      options.attachment = TestBytes(bytes);
      TestCall call("", std::move(options));
      ASSERT_EQ(client_.Run(call), absl::OkStatus());
      EXPECT_EQ(call.reply_attachment(), "");
    }
  }
  ExpectHealthy(client_);
}

// The bytes that came are the lease, and may be sent on as they are.
TEST_F(TransportAttachmentTest, GoOnFromCallToCall) {
  const std::string bytes = TestBytes(200000);
  Buffer buffer = Filled(bytes);
  for (int i = 0; i < 20; ++i) {
    TestCall::Options options = With(TestMethod::kEcho, bytes.size());
    options.keep_attachment = true;
    TestCall call("x", std::move(options));
    call.set_attachment(std::move(buffer));
    ASSERT_EQ(client_.Run(call), absl::OkStatus());
    buffer = call.TakeReplyAttachment();
    ASSERT_EQ(buffer.size(), bytes.size());
  }
  EXPECT_EQ(std::memcmp(buffer.data(), bytes.data(), bytes.size()), 0);
}

TEST_F(TransportAttachmentTest, ManyAtOnceComeBackEachToItsCall) {
  Calls calls;
  std::vector<std::string> sent;
  for (uint32_t i = 0; i < 64; ++i) {
    TestCall::Options options = With(TestMethod::kEcho);
    sent.push_back(TestBytes(size_t{i} * i * 100, i));
    options.attachment = sent.back();
    calls.Start(client_, 1, uint64_t{i} * 200, options);
  }
  ASSERT_TRUE(calls.Run(client_));
  calls.ExpectEchoed();
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_TRUE(calls[i].reply_attachment() == sent[i]) << i;
  }
  ExpectHealthy(client_);
}

TEST_F(TransportAttachmentTest, HoldUpNoSmallCallsWhenTheyAreLarge) {
  // Made before any is started, so that none is done before the last starts.
  const std::string bytes = TestBytes(4 * kLarge);
  std::vector<std::unique_ptr<TestCall>> large;
  for (int i = 0; i < 16; ++i) {
    large.push_back(
        std::make_unique<TestCall>("", With(TestMethod::kEcho, 4 * kLarge)));
    large.back()->set_attachment(Filled(bytes));
  }
  for (const auto& call : large) client_.Start(*call);
  const auto all_done = [&large] {
    return std::all_of(large.begin(), large.end(),
                       [](const auto& call) { return call->done(); });
  };
  EXPECT_EQ(client_.Echo(100), absl::OkStatus());
  EXPECT_FALSE(all_done());
  ASSERT_TRUE(client_.RunUntil(all_done));
  for (const auto& call : large) {
    EXPECT_TRUE(call->reply_attachment() == bytes);
  }
}

TEST_F(TransportAttachmentTest, TakeTurnsAndMayBeCancelledBeforeTheirs) {
  for (int round = 0; round < 3; ++round) {
    Calls large;
    for (int i = 0; i < 12; ++i) {
      TestCall::Options options = With(TestMethod::kEcho);
      options.attachment = TestBytes(kLarge);
      large.Start(client_, 1, 10, options);
    }
    for (size_t i = 0; i < large.size(); i += 2) {
      client_.connection().Cancel(&large[i], GivenUp());
    }
    ASSERT_TRUE(large.Run(client_));
    for (size_t i = 1; i < large.size(); i += 2) {
      EXPECT_EQ(large[i].reply_attachment().size(), kLarge);
    }
  }
  ExpectHealthy(client_);
}

TEST_F(TransportAttachmentTest, CountTowardsTheLimitsOfMessages) {
  const EndpointOptions small = SmallMemory(kLarge);
  TestServer server(small);
  TestClient client(server.address());
  for (const auto& [message, attachment] :
       {std::pair(kLarge / 2, kLarge / 2 + 1),
        std::pair(uint64_t{0}, kLarge + 1), std::pair(kLarge, uint64_t{1})}) {
    TestCall::Options options = With(TestMethod::kDiscard);
    options.attachment = TestBytes(attachment);
    TestCall call(TestBytes(message), std::move(options));
    EXPECT_EQ(client.Run(call).code(), absl::StatusCode::kResourceExhausted);
    EXPECT_FALSE(call.written());
  }
  // Replies too.
  TestClient poor(server_.address(), small);
  TestCall call(absl::StrCat(kLarge + 1), With(TestMethod::kAttach));
  EXPECT_EQ(poor.Run(call).code(), absl::StatusCode::kResourceExhausted);
  ExpectHealthyBelow(poor, kLarge / 2);
}

TEST_F(TransportAttachmentTest, OutliveTheirConnection) {
  const std::string bytes = TestBytes(100000);
  Buffer kept;
  {
    TestClient client(server_.address());
    TestCall::Options options = With(TestMethod::kEcho);
    options.attachment = bytes;
    options.keep_attachment = true;
    TestCall call("", std::move(options));
    ASSERT_EQ(client.Run(call), absl::OkStatus());
    kept = call.TakeReplyAttachment();
  }
  EXPECT_EQ(std::memcmp(kept.data(), bytes.data(), bytes.size()), 0);
  // On another connection they are as any other bytes.
  TestCall call("", With(TestMethod::kEcho));
  call.set_attachment(std::move(kept));
  ASSERT_EQ(client_.Run(call), absl::OkStatus());
  EXPECT_TRUE(call.reply_attachment() == bytes);
}

TEST_F(TransportAttachmentTest, StayWithTheServerWhenTheirCallIsCancelled) {
  for (int i = 0; i < 10; ++i) {
    auto call = std::make_unique<TestCall>("", With(TestMethod::kHold));
    call->set_attachment(Filled(TestBytes(300000)));
    client_.Start(*call);
    client_.connection().Cancel(call.get(), GivenUp());
    EXPECT_EQ(call->ends(), 1);
    call.reset();  // And its Buffer with it.
  }
  ExpectHealthy(client_);
}

// Replies that wait for a lease let go of the server's memory, without which
// the requests that hold the client's could not be read.
TEST_F(TransportAttachmentTest, DoNotDeadlockWhenMemoryIsShortOnBothSides) {
  const EndpointOptions options = SmallMemory(kLarge);
  TestServer server(options);
  TestClient client(server.address(), options);
  for (int round = 0; round < 3; ++round) {
    Calls calls;
    for (int i = 0; i < 40; ++i) {
      TestCall::Options echo = With(TestMethod::kEcho);
      echo.attachment = TestBytes(kLarge / 4);
      calls.Start(client, 1, 20, echo);
    }
    ASSERT_TRUE(calls.Run(client));
    calls.ExpectEchoed();
    for (size_t i = 0; i < calls.size(); ++i) {
      EXPECT_EQ(calls[i].reply_attachment().size(), kLarge / 4);
    }
  }
}

TEST_F(TransportAttachmentTest, FailWhenTheApplicationHoldsAllMemory) {
  const EndpointOptions options = SmallMemory(kLarge);
  TestClient client(server_.address(), options);
  std::vector<Buffer> held;
  held.reserve(4);
  const BufferSource source = client.connection().buffer_source();
  for (int i = 0; i < 4; ++i) held.push_back(source.Allocate(kLarge / 4));
  TestCall::Options echo = With(TestMethod::kEcho);
  echo.attachment = TestBytes(100000);
  TestCall call("", std::move(echo));
  EXPECT_EQ(client.Run(call).code(), absl::StatusCode::kResourceExhausted);
  TestCall reply("100000", With(TestMethod::kAttach));
  EXPECT_EQ(client.Run(reply).code(), absl::StatusCode::kResourceExhausted);
  held.clear();
  ExpectHealthyBelow(client, kLarge / 4);
}

}  // namespace
}  // namespace verbena::transport
