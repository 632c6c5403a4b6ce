// The fixture of tests of the transport.

#ifndef VERBENA_TESTS_TRANSPORT_TRANSPORT_FIXTURE_H_
#define VERBENA_TESTS_TRANSPORT_TRANSPORT_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/testing/transport_client.h"
#include "transport/base/clock.h"
#include "transport/base/limits.h"

namespace verbena::transport {

using testing_support::kTestTimeout;
using testing_support::TestBytes;
using testing_support::TestCall;
using testing_support::TestClient;
using testing_support::TestMethod;
using testing_support::TestOptions;
using testing_support::TestServer;

inline constexpr uint64_t kLarge = uint64_t{1} << 20;

inline TestCall::Options With(TestMethod method, uint64_t hint = 0) {
  TestCall::Options options;
  options.method = method;
  options.reply_hint_bytes = hint;
  return options;
}

inline TestCall::Options Until(TestMethod method, absl::Duration time) {
  TestCall::Options options = With(method);
  options.deadline = base::Now() + time;
  return options;
}

// Arenas and bulk memory of so many bytes, and messages that fit.
inline EndpointOptions SmallMemory(uint64_t bytes) {
  EndpointOptions options = TestOptions();
  options.max_arena_bytes = bytes;
  options.max_bulk_bytes = bytes;
  options.max_send_message_bytes = bytes;
  options.max_receive_message_bytes = bytes;
  return options;
}

inline absl::Status GivenUp() { return absl::CancelledError("given up"); }

// Calls that are started together. Their clients outlive them.
class Calls {
 public:
  Calls() = default;
  Calls(Calls&&) = default;
  // Those that are open still, because the test has failed.
  ~Calls() {
    for (const auto& [client, call] : started_) {
      if (!call->done()) client->connection().Cancel(call, GivenUp());
    }
  }

  void Start(TestClient& client, int count, uint64_t bytes,
             const TestCall::Options& options) {
    for (int i = 0; i < count; ++i) {
      calls_.push_back(std::make_unique<TestCall>(
          TestBytes(bytes, static_cast<uint32_t>(calls_.size())), options));
      started_.emplace_back(&client, calls_.back().get());
      client.Start(*calls_.back());
    }
  }
  bool Run(TestClient& client) {
    return client.RunUntil([this] { return AllDone(); });
  }
  bool AllDone() const {
    for (const auto& call : calls_) {
      if (!call->done()) return false;
    }
    return true;
  }
  void ExpectEchoed() const {
    for (const auto& call : calls_) {
      EXPECT_TRUE(call->status().ok()) << call->status();
      EXPECT_TRUE(call->reply() == call->sent());
      EXPECT_EQ(call->ends(), 1);
    }
  }
  void ExpectFailed(absl::StatusCode code) const {
    for (const auto& call : calls_) {
      EXPECT_EQ(call->status().code(), code) << call->status();
      EXPECT_EQ(call->ends(), 1);
    }
  }
  TestCall& operator[](size_t index) { return *calls_[index]; }
  size_t size() const { return calls_.size(); }

 private:
  std::vector<std::unique_ptr<TestCall>> calls_;
  std::vector<std::pair<TestClient*, TestCall*>> started_;
};

// A server, and what clients of it must find.
class TransportFixture : public testing::Test {
 protected:
  // Expects that the connection works as if nothing had happened, with every
  // slot and all memory free again.
  void ExpectHealthy(TestClient& client) {
    EXPECT_EQ(client.connection().open_calls(), 0u);
    Calls small;
    small.Start(client, 2 * kDefaultMaxOpenCalls, 10, With(TestMethod::kEcho));
    ASSERT_TRUE(small.Run(client));
    small.ExpectEchoed();
    EXPECT_TRUE(client.Echo(kLarge).ok());
    EXPECT_TRUE(client.Echo(kLarge, With(TestMethod::kEcho, kLarge)).ok());
  }

  // As ExpectHealthy(), but for a connection whose messages may have at most
  // `bytes` bytes.
  void ExpectHealthyBelow(TestClient& client, uint64_t bytes) {
    EXPECT_EQ(client.connection().open_calls(), 0u);
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(client.Echo(bytes).ok());
  }

  TestServer server_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TESTS_TRANSPORT_TRANSPORT_FIXTURE_H_
