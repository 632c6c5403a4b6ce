// Clients that take all they can get of what the connections of a server share:
// others are served all the same.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/transport/hostile_client_fixture.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/clock.h"
#include "transport/base/limits.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

using testing_support::kTestTimeout;
using testing_support::TestCall;

constexpr uint64_t kProduce = static_cast<uint64_t>(TestMethod::kProduce);

// The server waits for its clients for as long as they live.
EndpointOptions Options() {
  EndpointOptions options = TestOptions();
  options.keepalive_time = absl::Hours(1);
  options.stall_timeout = absl::Hours(1);
  return options;
}

class HostileClientSharesTest : public HostileClientFixture {
 protected:
  HostileClientSharesTest() : HostileClientFixture(Options()) {}

  absl::Status Echo(uint32_t bytes) {
    TestCall::Options options;
    options.deadline = base::Now() + kTestTimeout / 2;
    return good_.Echo(bytes, options);
  }
};

// A train of requests whose replies take a send buffer each.
std::string LongReplies(const RawPeer& raw, uint32_t first_call) {
  std::vector<std::string> frames;
  const std::string reply_bytes = "5000";
  for (uint32_t i = 0; i < kTrainFrames; ++i) {
    RequestHeader request = raw.InlineRequest(first_call + i, kProduce, 4);
    request.frame.flags |= kFlagCreditsWanted;
    frames.push_back(
        FrameText(i == 0 ? request : Behind(request), reply_bytes));
  }
  return TrainText(frames);
}

TEST_F(HostileClientSharesTest, ReceiveNothingOfWhatIsSent) {
  RawPeer::Options options;
  // Enough to be given the credits for all trains, and no more.
  constexpr uint32_t kReceives = 32;
  options.receives = kReceives;
  options.keep_receives = false;
  // Together they could hold more than there is.
  constexpr uint32_t kClients = kMaxSendBuffers / kCredits + 4;
  constexpr uint32_t kTrains = (kReceives + kCredits) / kTrainFrames + 1;
  std::vector<std::unique_ptr<RawPeer>> clients;
  for (uint32_t i = 0; i < kClients; ++i) {
    auto raw = RawPeer::Create(server_.address(), options);
    ASSERT_TRUE(raw.ok()) << raw.status();
    ASSERT_TRUE((*raw)->Open({{kOptionTrains, ""}}).ok());
    for (uint32_t train = 0; train < kTrains; ++train) {
      ASSERT_TRUE((*raw)->Send(LongReplies(**raw, train * kTrainFrames)).ok());
    }
    ASSERT_TRUE((*raw)->Flush().ok());
    clients.push_back(*std::move(raw));
  }
  // Its replies need buffers as well, inline where the device is able to or
  // not.
  for (int i = 0; i < 100; ++i) ASSERT_EQ(Echo(5000), absl::OkStatus());
  EXPECT_EQ(server_.endpoint().connection_count(), kClients + 1);
}

}  // namespace
}  // namespace verbena::transport
