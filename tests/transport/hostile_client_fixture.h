// The fixture of tests with hostile clients.

#ifndef VERBENA_TESTS_TRANSPORT_HOSTILE_CLIENT_FIXTURE_H_
#define VERBENA_TESTS_TRANSPORT_HOSTILE_CLIENT_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/testing/transport_client.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/check.h"
#include "transport/base/limits.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {

using testing_support::TestBytes;
using testing_support::TestClient;
using testing_support::TestMethod;
using testing_support::TestOptions;
using testing_support::TestServer;

inline constexpr uint64_t kEcho = static_cast<uint64_t>(TestMethod::kEcho);
inline constexpr uint64_t kHold = static_cast<uint64_t>(TestMethod::kHold);
inline constexpr uint64_t kDiscard =
    static_cast<uint64_t>(TestMethod::kDiscard);

// A server with a good client and a raw one. Whatever the raw client does, the
// server must still serve the good client.
class HostileClientFixture : public testing::Test {
 protected:
  explicit HostileClientFixture(const EndpointOptions& options = TestOptions())
      : server_(options), good_(server_.address(), options) {}
  ~HostileClientFixture() override {
    EXPECT_EQ(good_.Echo(100), absl::OkStatus());
    EXPECT_EQ(good_.Echo(100000), absl::OkStatus());
    raw_.reset();
    EXPECT_TRUE(server_.AwaitConnections(1));
  }

  // Return a raw client. Raw() has not connected; Opened() has got its WELCOME.
  RawPeer& Raw(const RawPeer::Options& options = {}) {
    absl::StatusOr<std::unique_ptr<RawPeer>> raw =
        RawPeer::Create(server_.address(), options);
    CHECK(raw.ok()) << raw.status().ToString();
    raw_ = *std::move(raw);
    return *raw_;
  }
  RawPeer& Opened(const RawPeer::Options& options = {},
                  const std::vector<HelloOption>& hello = {}) {
    RawPeer& raw = Raw(options);
    const absl::Status status = raw.Open(hello);
    CHECK(status.ok()) << status.ToString();
    return raw;
  }

  // Options of a raw client that sends without regard to credits.
  static RawPeer::Options Careless() {
    RawPeer::Options options;
    options.keeps_to_credits = false;
    return options;
  }

  // Connects with `private_data`. Returns the reason in the rejection.
  Reject Rejection(const std::string& private_data) {
    const absl::StatusOr<CmEvent> event = Raw().Connect(private_data);
    EXPECT_TRUE(event.ok()) << event.status();
    if (!event.ok()) return {};
    EXPECT_EQ(event->type, RDMA_CM_EVENT_REJECTED);
    EXPECT_TRUE(IsRejectByApplication(event->status)) << event->status;
    const absl::StatusOr<Reject> reject = DecodeReject(event->private_data());
    EXPECT_TRUE(reject.ok()) << reject.status();
    return reject.ok() ? *reject : Reject{};
  }

  // Sends `frames` on a good connection; what the BYE says to that.
  std::string ByeTo(const std::vector<std::string>& frames,
                    const std::vector<HelloOption>& hello = {}) {
    RawPeer& raw = Opened({}, hello);
    for (const std::string& frame : frames) {
      EXPECT_TRUE(raw.Send(frame).ok());
    }
    std::string bye = raw.AwaitBye();
    EXPECT_TRUE(raw.AwaitEnd().ok());
    return bye;
  }

  // A request header for ByeTo(): its only field that depends on the peer is
  // the credit limit, and at the beginning that is the same for all.
  static RequestHeader Request(uint32_t call_id, uint32_t message_bytes = 0) {
    RequestHeader request = {};
    request.frame = Plain(FrameType::kRequest, call_id);
    request.method_id = kHold;
    request.timeout_us = kNoTimeout;
    request.message_bytes = message_bytes;
    return request;
  }
  static FrameHeader Plain(FrameType type, uint32_t call_id = 0) {
    FrameHeader header = {};
    header.type = type;
    header.credit_limit = kCredits + 1;  // The WELCOME was one.
    header.call_id = call_id;
    return header;
  }

  TestServer server_;
  TestClient good_;
  std::unique_ptr<RawPeer> raw_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TESTS_TRANSPORT_HOSTILE_CLIENT_FIXTURE_H_
