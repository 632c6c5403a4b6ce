// Clients that connect and say nothing: they end for others, which get in.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/transport/hostile_client_fixture.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/limits.h"
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
  std::unique_ptr<RawPeer> Silent() {
    RawPeer::Options options;
    options.receives = 1;
    options.arena_bytes = 4096;
    auto raw = RawPeer::Create(server_.address(), options);
    CHECK(raw.ok()) << raw.status().ToString();
    EXPECT_TRUE((*raw)->Connect(EncodeConnectRequest((*raw)->Request())).ok());
    return *std::move(raw);
  }
};

TEST_F(HostileClientSlotsTest, TheOldestThatIsSilentEndsForTheNext) {
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (uint32_t i = 0; i < kMaxUnadmittedOfAddress; ++i) {
    silent.push_back(Silent());
  }
  EXPECT_TRUE(server_.AwaitConnections(kMaxUnadmittedOfAddress + 1));
  // One that says who it is comes in, and goes out of the line.
  const TestClient other(server_.address(), Options());
  EXPECT_TRUE(silent[0]->AwaitEnd().ok());
  silent.push_back(Silent());
  silent.push_back(Silent());
  EXPECT_TRUE(silent[1]->AwaitEnd().ok());
  EXPECT_EQ(good_.Echo(100), absl::OkStatus());
  // The others stay.
  EXPECT_TRUE(server_.AwaitConnections(kMaxUnadmittedOfAddress + 2));
  EXPECT_TRUE(silent[2]
                  ->Send(FrameText(silent[2]->Header(FrameType::kHello),
                                   EncodeOptions({})))
                  .ok());
  EXPECT_TRUE(silent[2]->Receive(FrameType::kWelcome).ok());
}

}  // namespace
}  // namespace verbena::transport
