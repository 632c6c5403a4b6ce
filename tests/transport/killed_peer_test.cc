// Processes that are killed while calls are under way: the other side ends them
// in bounded time and goes on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/testing/child_process.h"
#include "tests/testing/transport_client.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

using testing_support::ChildProcess;

using testing_support::TestBytes;
using testing_support::TestCall;
using testing_support::TestClient;
using testing_support::TestMethod;
using testing_support::TestOptions;
using testing_support::TestServer;

constexpr uint32_t kLargeBytes = 16 << 20;
constexpr int kLargeCalls = 50;

// How long a death may stay unnoticed.
constexpr absl::Duration kNoticed = absl::Seconds(10);

// --- What the child processes do --------------------------------------------

constexpr char kReaderRole[] = "--be-a-client-with-large-requests";
constexpr char kServerRole[] = "--be-a-server";

// Has large requests read from its memory until it is killed.
int BeClient(const std::string& address) {
  RawPeer::Options options;
  options.arena_bytes = kLargeBytes;
  absl::StatusOr<std::unique_ptr<RawPeer>> raw =
      RawPeer::Create(address, options);
  CHECK(raw.ok()) << raw.status().ToString();
  absl::Status status = (*raw)->Open();
  for (uint32_t i = 0; i < kLargeCalls && status.ok(); ++i) {
    status = (*raw)->Send(FrameText((*raw)->ArenaRequest(
        i, static_cast<uint64_t>(TestMethod::kDiscard), 0, kLargeBytes)));
  }
  CHECK(status.ok()) << status.ToString();
  (*raw)->AwaitEnd().IgnoreError();
  return 0;
}

// Serves until it is killed.
int BeServer() {
  TestServer server;
  std::printf("listening on %s\n", server.address().c_str());
  std::fflush(stdout);
  pause();
  return 0;
}

// --- The tests --------------------------------------------------------------

class KilledPeerTest : public testing::Test {
 protected:
  static std::unique_ptr<ChildProcess> Start(
      const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {"/proc/self/exe"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return std::make_unique<ChildProcess>(command);
  }

  // The rest of the first line that begins with `prefix`.
  static std::string ReadLine(ChildProcess& child, absl::string_view prefix) {
    while (true) {
      const std::string line = child.ReadLine();
      if (absl::StartsWith(line, prefix)) return line.substr(prefix.size());
      if (line.empty()) return "";
    }
  }
};

TEST_F(KilledPeerTest, AClientWhileItsLargeRequestsAreRead) {
  EndpointOptions options = TestOptions();
  options.max_receive_message_bytes = kLargeBytes;
  options.max_bulk_bytes = uint64_t{4} * kLargeBytes;
  TestServer server(options);
  TestClient good(server.address());
  EXPECT_TRUE(good.Echo(1000).ok());
  const auto child = Start({kReaderRole, server.address()});
  // The first has been read, so others are being read. The good client polls
  // meanwhile: on a slow device that takes longer than a silent one may live.
  ASSERT_TRUE(
      good.RunUntil([&server] { return server.handler().calls() > 1; }));
  child->Signal(SIGKILL);
  const absl::Time killed = base::Now();
  EXPECT_EQ(child->Wait(), -SIGKILL);
  EXPECT_TRUE(good.RunUntil([&server, killed] {
    return server.endpoint().connection_count() == 1 ||
           base::Now() - killed > kNoticed;
  }));
  EXPECT_LT(base::Now() - killed, kNoticed);
  EXPECT_LT(server.handler().calls(), 1 + kLargeCalls);
  // All memory has come back.
  for (int i = 0; i < 5; ++i) {
    const absl::Status status = good.Echo(kLargeBytes / 4);
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_F(KilledPeerTest, AServerWithOpenCalls) {
  const auto child = Start({kServerRole});
  const std::string address = ReadLine(*child, "listening on ");
  ASSERT_FALSE(address.empty());
  TestClient client(address);
  EXPECT_TRUE(client.Echo(100000).ok());
  TestCall::Options hold;
  hold.method = TestMethod::kHold;
  TestCall held("", hold);
  TestCall large(TestBytes(kLargeBytes));
  client.Start(held);
  client.Start(large);
  EXPECT_TRUE(client.Echo(10).ok());
  child->Signal(SIGKILL);
  const absl::Time killed = base::Now();
  EXPECT_EQ(child->Wait(), -SIGKILL);
  ASSERT_TRUE(client.RunUntilDone(held));
  ASSERT_TRUE(client.RunUntilDone(large));
  EXPECT_LT(base::Now() - killed, kNoticed);
  EXPECT_EQ(held.status().code(), absl::StatusCode::kUnavailable)
      << held.status();
  EXPECT_TRUE(client.connection().failed());
  // Nobody listens there any more.
  EXPECT_EQ(TestClient::Connect(address, TestOptions()).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace verbena::transport

int main(int argc, char** argv) {
  using verbena::transport::BeClient;
  using verbena::transport::BeServer;
  const std::string role = argc > 1 ? argv[1] : "";
  if (role == verbena::transport::kReaderRole) return BeClient(argv[2]);
  if (role == verbena::transport::kServerRole) return BeServer();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
