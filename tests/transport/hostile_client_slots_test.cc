// Clients that connect and say nothing: they end for others, which get in.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/transport/hostile_client_fixture.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/check.h"
#include "transport/base/gate.h"
#include "transport/base/limits.h"
#include "transport/server/server_poller.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

// The server gives its clients all the time that they want.
EndpointOptions Options() {
  EndpointOptions options = TestOptions();
  options.keepalive_time = absl::Hours(1);
  options.connect_timeout = absl::Hours(1);
  return options;
}

class HostileClientSlotsTest : public HostileClientFixture {
 protected:
  HostileClientSlotsTest() : HostileClientFixture(Options()) {
    // Both ends of every connection are in this process.
    rlimit limit = {};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  // A client that says nothing; null if it was refused.
  std::unique_ptr<RawPeer> Silent() {
    RawPeer::Options options;
    options.receives = 1;
    options.arena_bytes = 4096;
    auto raw = RawPeer::Create(server_.address(), options);
    CHECK(raw.ok()) << raw.status().ToString();
    const auto event = (*raw)->Connect(EncodeConnectRequest((*raw)->Request()));
    EXPECT_TRUE(event.ok()) << event.status();
    if (!event.ok() || event->type != RDMA_CM_EVENT_ESTABLISHED) return nullptr;
    return *std::move(raw);
  }
};

TEST_F(HostileClientSlotsTest, TheOldestThatAreSilentEndWhenNoPlaceIsLeft) {
  std::vector<std::unique_ptr<RawPeer>> silent;
  while (std::unique_ptr<RawPeer> raw = Silent()) {
    silent.push_back(std::move(raw));
    ASSERT_LT(silent.size(), kMaxConnectionsPerPoller);
  }
  // The good client has the other place.
  EXPECT_EQ(silent.size(), kMaxConnectionsPerPoller - 1);
  for (uint32_t i = 0; i < kEndedTogether; ++i) {
    EXPECT_TRUE(silent[i]->AwaitEnd().ok()) << i;
  }
  EXPECT_TRUE(
      server_.AwaitConnections(kMaxConnectionsPerPoller - kEndedTogether));
  const TestClient other(server_.address(), Options());
  EXPECT_EQ(good_.Echo(100), absl::OkStatus());
  // The others stay.
  RawPeer& last = *silent.back();
  EXPECT_TRUE(
      last.Send(FrameText(last.Header(FrameType::kHello), EncodeOptions({})))
          .ok());
  EXPECT_TRUE(last.Receive(FrameType::kWelcome).ok());
}

// The poller finds a crowd that fills every place, of which nobody is left.
TEST_F(HostileClientSlotsTest, ThoseThatHaveGoneTakeNoPlaces) {
  base::Gate held, released;
  ASSERT_EQ(server_.endpoint().Look([&](ServerPoller&) {
    held.Open();
    released.Wait();
  }),
            1);
  held.Wait();
  RawPeer::Options options;
  options.receives = 1;
  options.arena_bytes = 4096;
  const auto begin = [&]() -> std::unique_ptr<RawPeer> {
    auto raw = RawPeer::Create(server_.address(), options);
    CHECK(raw.ok()) << raw.status().ToString();
    const absl::Status status =
        (*raw)->BeginConnect(EncodeConnectRequest((*raw)->Request()));
    EXPECT_TRUE(status.ok()) << status;
    return *std::move(raw);
  };
  // The good client has the other place.
  for (uint32_t i = 0; i < kMaxConnectionsPerPoller - 1; ++i) begin();
  const std::unique_ptr<RawPeer> last = begin();
  released.Open();
  const absl::StatusOr<CmEvent> event = last->AwaitAnswer();
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(event->type, RDMA_CM_EVENT_ESTABLISHED);
}

}  // namespace
}  // namespace verbena::transport
