// Memory that large calls needed goes back, at both ends, when it is idle.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "tests/transport/transport_fixture.h"
#include "transport/base/limits.h"
#include "transport/base/test_seed.h"

namespace verbena::transport {
namespace {

EndpointOptions IdleAfter(absl::Duration time) {
  EndpointOptions options = TestOptions();
  options.memory_idle_time = time;
  return options;
}

class TransportMemoryTest : public testing::Test {
 protected:
  explicit TransportMemoryTest(absl::Duration idle = absl::Milliseconds(10))
      : options_(IdleAfter(idle)),
        server_(options_),
        client_(server_.address(), options_) {}

  // Whether both ends come to have no more than they began with.
  bool GivesAllBack() {
    return client_.RunUntil([this] {
      return client_.connection().arena_bytes() == kFirstArenaBytes &&
             server_.endpoint().bulk_bytes() == kFirstBulkRegionBytes;
    });
  }

  const EndpointOptions options_;
  TestServer server_;
  TestClient client_;
};

TEST_F(TransportMemoryTest, GoesBackAfterLargeCallsAndComesAgain) {
  for (int i = 0; i < 3; ++i) {
    Calls calls;
    calls.Start(client_, 8, 2 * kLarge, With(TestMethod::kEcho, 2 * kLarge));
    ASSERT_TRUE(calls.Run(client_));
    EXPECT_GT(client_.connection().arena_bytes(), kFirstArenaBytes);
    calls.ExpectEchoed();
    ASSERT_TRUE(GivesAllBack());
  }
  EXPECT_TRUE(client_.Echo(100).ok());
}

// The calls lend leases, because their hints say that replies are long. Nothing
// is written there, and the memory is given back.
TEST_F(TransportMemoryTest, GoesBackAfterRepliesThatWereExpectedToBeLong) {
  for (int i = 0; i < 3; ++i) {
    Calls calls;
    calls.Start(client_, 64, 10, With(TestMethod::kEcho, 100'000));
    ASSERT_TRUE(calls.Run(client_));
    EXPECT_GT(client_.connection().arena_bytes(), kFirstArenaBytes);
    calls.ExpectEchoed();
    ASSERT_TRUE(GivesAllBack());
  }
}

TEST_F(TransportMemoryTest, StaysWhereTheApplicationHasABuffer) {
  TestCall::Options options = With(TestMethod::kEcho, 4 * kLarge);
  options.attachment = TestBytes(3 * kLarge);
  options.keep_attachment = true;
  TestCall call("", options);
  ASSERT_TRUE(client_.Run(call).ok());
  Buffer held = call.TakeReplyAttachment();
  const uint64_t before = client_.connection().arena_bytes();
  // The memory of the request is given back; that of the reply is not.
  ASSERT_TRUE(client_.RunUntil([&] {
    return client_.connection().arena_bytes() < before &&
           server_.endpoint().bulk_bytes() == kFirstBulkRegionBytes;
  }));
  EXPECT_GE(client_.connection().arena_bytes(), 4 * kLarge);
  EXPECT_TRUE(client_.Echo(2 * kLarge).ok());
  EXPECT_TRUE(std::equal(held.span().begin(), held.span().end(),
                         options.attachment.begin(), options.attachment.end(),
                         [](uint8_t a, char b) { return a == uint8_t(b); }));
  held.Reset();
  EXPECT_TRUE(GivesAllBack());
}

// Memory is idle at once: it comes and goes with almost every call.
class RestlessMemoryTest : public TransportMemoryTest {
 protected:
  RestlessMemoryTest() : TransportMemoryTest(absl::Nanoseconds(1)) {}
};

TEST_F(RestlessMemoryTest, ServesCallsOfEverySize) {
  std::mt19937 random(base::TestSeed());
  for (int i = 0; i < 30; ++i) {
    Calls calls;
    for (int j = 0; j < 3; ++j) {
      const uint64_t bytes = random() % (3 * kLarge) + 1;
      const uint64_t hint = random() % 2 == 0 ? 0 : bytes;
      calls.Start(client_, 1, bytes, With(TestMethod::kEcho, hint));
    }
    ASSERT_TRUE(calls.Run(client_));
    calls.ExpectEchoed();
  }
  EXPECT_TRUE(GivesAllBack());
}

TEST_F(RestlessMemoryTest, ServesCallsWhileOthersAllocate) {
  std::atomic<bool> stop{false};
  std::thread other([&stop, source = client_.connection().buffer_source()] {
    for (uint64_t i = 0; !stop.load(); ++i) {
      const Buffer buffer = source.Allocate(kLarge << i % 3);
      std::fill_n(buffer.data(), 1000, uint8_t(i));
    }
  });
  for (int i = 0; i < 20; ++i) {
    TestCall call("");
    Buffer attachment =
        client_.connection().buffer_source().Allocate((i % 3 + 1) * kLarge);
    std::fill_n(attachment.data(), attachment.size(), uint8_t(i));
    call.set_attachment(std::move(attachment));
    EXPECT_TRUE(client_.Run(call).ok()) << call.status();
  }
  stop.store(true);
  other.join();
  EXPECT_TRUE(GivesAllBack());
}

TEST_F(RestlessMemoryTest, SurvivesCallsThatAreCancelled) {
  for (int i = 0; i < 20; ++i) {
    Calls calls;
    calls.Start(client_, 3, 2 * kLarge, With(TestMethod::kEcho, 2 * kLarge));
    client_.connection().Cancel(&calls[size_t(i % 3)], GivenUp());
    ASSERT_TRUE(calls.Run(client_));
  }
  EXPECT_TRUE(GivesAllBack());
  EXPECT_TRUE(client_.Echo(2 * kLarge).ok());
}

}  // namespace
}  // namespace verbena::transport
