// Frames that go as several SENDs, between peers that do so up to the limit,
// and with peers that never do.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/transport/transport_fixture.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/limits.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

EndpointOptions Continuing(uint32_t bytes) {
  EndpointOptions options = TestOptions();
  options.continued_bytes_max = bytes;
  return options;
}

class TransportContinuedTest : public testing::Test {
 protected:
  // Echoes between peers that continue up to so much.
  static void ExpectEcho(TestClient& client, size_t message, size_t attachment,
                         TestMethod method = TestMethod::kEcho) {
    SCOPED_TRACE(absl::StrCat(message, " and ", attachment, " bytes"));
    TestCall::Options options = With(method);
    options.metadata = "some";
    options.attachment = TestBytes(attachment, 5);
    TestCall call(TestBytes(message), options);
    ASSERT_EQ(client.Run(call), absl::OkStatus());
    EXPECT_TRUE(call.reply() == call.sent());
    EXPECT_TRUE(call.reply_attachment() == options.attachment);
    EXPECT_EQ(call.reply_metadata(), "some");
    EXPECT_EQ(call.ends(), 1);
  }
};

TEST_F(TransportContinuedTest, ComesBackAtEverySize) {
  TestServer server(Continuing(kContinuedBytesMax));
  TestClient client(server.address(), Continuing(kContinuedBytesMax));
  // Around what one, two and three SENDs hold, and the end of it all.
  const uint32_t room = kBufferBytes - sizeof(FrameHeader);
  for (const uint32_t full :
       {1 * room, 2 * room, 3 * room, kContinuedBytesMax}) {
    for (uint32_t less = 0; less < 120; ++less) {
      ExpectEcho(client, full - less, 0);
    }
    for (uint32_t less = 0; less < 120; less += 13) {
      ExpectEcho(client, 100, full - less - 100);
      ExpectEcho(client, full - less - 100, 100);
    }
  }
}

TEST_F(TransportContinuedTest, ComesBackFromOtherThreads) {
  TestServer server(Continuing(kContinuedBytesMax));
  TestClient client(server.address(), Continuing(kContinuedBytesMax));
  for (const size_t bytes : {9000, 30000, 60000}) {
    ExpectEcho(client, bytes, 0, TestMethod::kEchoWorker);
    ExpectEcho(client, 10, bytes, TestMethod::kEchoWorker);
    ExpectEcho(client, bytes / 2, bytes / 2, TestMethod::kEchoBuffer);
  }
}

TEST_F(TransportContinuedTest, ComesBackToPeersThatNeverDoIt) {
  for (const bool server_does : {false, true}) {
    TestServer server(Continuing(server_does ? kContinuedBytesMax : 0));
    TestClient client(server.address(),
                      Continuing(server_does ? 0 : kContinuedBytesMax));
    for (const size_t bytes : {8100, 9000, 30000, 60000, 100000}) {
      ExpectEcho(client, bytes, 0);
      ExpectEcho(client, 10, bytes);
    }
  }
}

// There are not credits for all of it, so most go the other way.
TEST_F(TransportContinuedTest, ManyAtOnceComeBackEachToItsCall) {
  TestServer server(Continuing(kContinuedBytesMax));
  TestClient client(server.address(), Continuing(kContinuedBytesMax));
  for (const uint64_t hint : {0, 100000}) {
    Calls calls;
    for (int i = 0; i < 100; ++i) {
      calls.Start(client, 1, 600 * static_cast<uint64_t>(i),
                  With(TestMethod::kEcho, hint));
    }
    ASSERT_TRUE(calls.Run(client));
    calls.ExpectEchoed();
  }
}

TEST_F(TransportContinuedTest, MayBeCancelled) {
  TestServer server(Continuing(kContinuedBytesMax));
  TestClient client(server.address(), Continuing(kContinuedBytesMax));
  for (int polls = 0; polls < 20; ++polls) {
    TestCall call(TestBytes(40000), With(TestMethod::kEcho));
    client.Start(call);
    for (int i = 0; i < polls && !call.done(); ++i) {
      client.connection().poller().PollOnce();
    }
    client.connection().Cancel(&call, GivenUp());
    EXPECT_EQ(call.ends(), 1);
  }
  ExpectEcho(client, 40000, 0);
}

}  // namespace
}  // namespace verbena::transport
