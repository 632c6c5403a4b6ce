// A thousand connections between two processes, on one poller of the server:
// what an idle one costs, that memory follows the traffic, and that every one
// of them works.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/testing/child_process.h"
#include "tests/testing/test_device.h"
#include "tests/testing/transport_client.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/limits.h"
#include "transport/device/receive_buffers.h"
#include "transport/device/send_buffers.h"

namespace verbena::transport {
namespace {

using testing_support::ChildProcess;
using testing_support::kTestTimeout;
using testing_support::TestCall;
using testing_support::TestClient;
using testing_support::TestOptions;
using testing_support::TestServer;
using testing_support::WordAfter;

constexpr char kServerRole[] = "--be-a-server";
constexpr char kConnectionsFlag[] = "--connections=";

// Beside the receives of its connections, what a server has registered for
// frames: receives that are being read, send slots, and the rest of two slabs.
constexpr uint64_t kConstantBytes =
    uint64_t{kBufferBytes} *
    (ReceiveBuffers::Extra(UINT16_MAX) + ReceiveBuffers::kSlabBuffers +
     2 * SendBuffers::kSlabBuffers);

// --- The server's process ----------------------------------------------------

uint64_t ResidentBytes() {
  uint64_t pages = 0;
  uint64_t resident = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  CHECK(file != nullptr);
  CHECK_EQ(std::fscanf(file, "%lu %lu", &pages, &resident), 2);
  std::fclose(file);
  return resident * 4096;
}

// A client answers no PING before all of them are connected, which may take
// longer than a server waits for one.
EndpointOptions Options() {
  EndpointOptions options = TestOptions();
  options.keepalive_time = absl::Hours(1);
  return options;
}

// Every connection has descriptors in both processes.
void RaiseDescriptorLimit() {
  rlimit limit = {};
  CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

// Serves until it is killed; says how it is whenever it gets SIGUSR1.
int BeServer() {
  sigset_t asked;
  sigemptyset(&asked);
  sigaddset(&asked, SIGUSR1);
  // In every thread.
  CHECK_EQ(pthread_sigmask(SIG_BLOCK, &asked, nullptr), 0);
  RaiseDescriptorLimit();
  TestServer server(Options());
  std::printf("listening on %s\n", server.address().c_str());
  while (true) {
    std::fflush(stdout);
    int signal = 0;
    CHECK_EQ(sigwait(&asked, &signal), 0);
    rusage used = {};
    CHECK_EQ(getrusage(RUSAGE_SELF, &used), 0);
    std::printf(
        "stats connections %u frame_bytes %lu resident %lu wake_ups %ld\n",
        server.endpoint().connection_count(), server.endpoint().frame_bytes(),
        ResidentBytes(), used.ru_nvcsw);
  }
}

// --- The tests ---------------------------------------------------------------

uint32_t connections_wanted = 1000;

struct Stats {
  uint64_t connections = 0;
  uint64_t frame_bytes = 0;
  uint64_t resident = 0;
  uint64_t wake_ups = 0;
};

class ManyConnectionsTest : public testing::Test {
 protected:
  ManyConnectionsTest() { address_ = ReadLine("listening on "); }

  std::string ReadLine(absl::string_view prefix) {
    while (true) {
      const std::string line = server_.ReadLine();
      if (absl::StartsWith(line, prefix)) return line.substr(prefix.size());
      CHECK(!line.empty()) << "the server's process has ended";
    }
  }

  Stats Ask() {
    server_.Signal(SIGUSR1);
    const std::string line = ReadLine("stats ");
    Stats stats;
    EXPECT_TRUE(
        absl::SimpleAtoi(WordAfter("connections ", line), &stats.connections));
    EXPECT_TRUE(
        absl::SimpleAtoi(WordAfter("frame_bytes ", line), &stats.frame_bytes));
    EXPECT_TRUE(
        absl::SimpleAtoi(WordAfter("resident ", line), &stats.resident));
    EXPECT_TRUE(
        absl::SimpleAtoi(WordAfter("wake_ups ", line), &stats.wake_ups));
    return stats;
  }

  // The server counts once a millisecond: asks until it has so many.
  Stats AskUntil(uint64_t connections) {
    const absl::Time deadline = base::Now() + kTestTimeout;
    Stats stats = Ask();
    while (stats.connections != connections && base::Now() < deadline) {
      stats = Ask();
    }
    EXPECT_EQ(stats.connections, connections);
    return stats;
  }

  void Connect(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      absl::StatusOr<LoneConnection> connection =
          TestClient::Connect(address_, Options());
      ASSERT_TRUE(connection.ok()) << i << ": " << connection.status();
      clients_.push_back(std::make_unique<TestClient>(*std::move(connection)));
    }
  }

  // Many calls at once on one connection.
  static void KeepBusy(TestClient& client) {
    std::vector<std::unique_ptr<TestCall>> calls;
    for (uint32_t i = 0; i < 4 * kCredits; ++i) {
      calls.push_back(std::make_unique<TestCall>(std::string(4096, 'x')));
      client.Start(*calls.back());
    }
    for (const auto& call : calls) {
      ASSERT_TRUE(client.RunUntilDone(*call));
      ASSERT_TRUE(call->status().ok()) << call->status();
    }
  }

  ChildProcess server_{{"/proc/self/exe", kServerRole}};
  std::string address_;
  std::vector<std::unique_ptr<TestClient>> clients_;
};

TEST_F(ManyConnectionsTest, CostLittleAndAllWork) {
  const Stats none = Ask();
  ASSERT_NO_FATAL_FAILURE(Connect(connections_wanted));
  const uint64_t count = clients_.size();
  const Stats idle = AskUntil(count);
  std::printf(
      "%lu connections: %lu bytes registered for frames, %lu bytes "
      "resident for each\n",
      count, idle.frame_bytes / count, (idle.resident - none.resident) / count);
  EXPECT_LE(idle.frame_bytes,
            count * kIdleReceives * kBufferBytes + kConstantBytes);

  // A few that are busy cost what they use, and nothing for the others.
  const uint64_t busy = std::min<uint64_t>(count, 4);
  for (uint64_t i = 0; i < busy; ++i) {
    ASSERT_NO_FATAL_FAILURE(KeepBusy(*clients_[i]));
  }
  const Stats grown = AskUntil(count);
  EXPECT_GT(grown.frame_bytes, idle.frame_bytes);
  EXPECT_LE(
      grown.frame_bytes,
      idle.frame_bytes + busy * 2 * kCredits * kBufferBytes + kConstantBytes);

  for (const auto& client : clients_) {
    const absl::Status status = client->Echo(64);
    ASSERT_TRUE(status.ok()) << status;
  }
  for (const auto& client : clients_) ASSERT_TRUE(client->Echo(5000).ok());

  // Later connections use the memory that these leave.
  const Stats used = Ask();
  clients_.clear();
  AskUntil(0);
  ASSERT_NO_FATAL_FAILURE(Connect(10));
  EXPECT_TRUE(clients_.back()->Echo(100).ok());
  EXPECT_LE(Ask().frame_bytes, used.frame_bytes + kConstantBytes);
}

// An idle connection needs no ticks but for its PINGs, which are far apart.
TEST_F(ManyConnectionsTest, NobodyIsWokenForIdleOnes) {
  ASSERT_NO_FATAL_FAILURE(Connect(std::min(connections_wanted, 200u)));
  for (const auto& client : clients_) ASSERT_TRUE(client->Echo(64).ok());
  // The first seconds may have wake-ups that follow traffic, because windows
  // shrink after a second without any.
  uint64_t woken = UINT64_MAX;
  for (int second = 0; second < 10 && woken > 20; ++second) {
    const Stats before = Ask();
    poll(nullptr, 0, 1000);  // Nothing should happen in this second.
    woken = Ask().wake_ups - before.wake_ups;
  }
  EXPECT_LE(woken, 20u) << "in every one of ten seconds";
}

}  // namespace
}  // namespace verbena::transport

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], verbena::transport::kServerRole) == 0) {
    return verbena::transport::BeServer();
  }
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (!absl::StartsWith(argument, verbena::transport::kConnectionsFlag)) {
      continue;
    }
    argument.remove_prefix(std::strlen(verbena::transport::kConnectionsFlag));
    CHECK(absl::SimpleAtoi(argument, &verbena::transport::connections_wanted));
  }
  verbena::transport::RaiseDescriptorLimit();
  return RUN_ALL_TESTS();
}
