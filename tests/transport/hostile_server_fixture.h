// The fixture of tests with hostile servers.

#ifndef VERBENA_TESTS_TRANSPORT_HOSTILE_SERVER_FIXTURE_H_
#define VERBENA_TESTS_TRANSPORT_HOSTILE_SERVER_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/testing/transport_client.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/check.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {

using testing_support::TestBytes;
using testing_support::TestCall;
using testing_support::TestClient;
using testing_support::TestMethod;
using testing_support::TestOptions;

inline constexpr uint32_t kReplyBytes = 100000;

// A raw server and the client that connects to it.
class HostileServerFixture : public testing::Test {
 protected:
  HostileServerFixture() : listener_(*RawListener::Create()) {}
  ~HostileServerFixture() override {
    if (connecting_.joinable()) connecting_.join();
  }

  // Has a client connect, and returns the server's end of the connection.
  RawPeer& Incoming(const EndpointOptions& options = TestOptions(),
                    const RawPeer::Options& raw_options = {}) {
    connecting_ = std::thread([this, options] {
      connected_ = TestClient::Connect(listener_->address(), options);
    });
    absl::StatusOr<std::unique_ptr<RawPeer>> raw = listener_->Next(raw_options);
    CHECK(raw.ok()) << raw.status().ToString();
    raw_ = *std::move(raw);
    return *raw_;
  }
  // Waits until the client's attempt to connect ends, and returns its status.
  absl::Status Outcome() {
    connecting_.join();
    return connected_.status();
  }
  // As Outcome(), but returns the client. REQUIRES: it has connected.
  TestClient& Client() {
    const absl::Status status = Outcome();
    CHECK(status.ok()) << status.ToString();
    client_ = std::make_unique<TestClient>(*std::move(connected_));
    return *client_;
  }

  // Connects without an error, up to the WELCOME.
  RawPeer& Opened(const EndpointOptions& options = TestOptions(),
                  const RawPeer::Options& raw_options = {},
                  const std::vector<HelloOption>& welcome = {}) {
    RawPeer& raw = Incoming(options, raw_options);
    const absl::Status status = raw.AcceptAndWelcome(welcome);
    CHECK(status.ok()) << status.ToString();
    Client();
    return raw;
  }

  // Starts `call` and returns the REQUEST as the server gets it.
  RequestHeader StartAndReceive(TestCall& call) {
    client_->Start(call);
    const absl::StatusOr<std::string> request =
        raw_->Receive(FrameType::kRequest);
    CHECK(request.ok()) << request.status().ToString();
    return HeaderOf<RequestHeader>(*request);
  }

  // Polls the client until the server gets a frame of `type` from it.
  absl::StatusOr<std::string> PollForFrame(FrameType type) {
    std::atomic<bool> done = false;
    absl::StatusOr<std::string> frame = absl::UnknownError("");
    std::thread server([&] {
      frame = raw_->Receive(type);
      done = true;
    });
    EXPECT_TRUE(client_->RunUntil([&done] { return done.load(); }));
    server.join();
    return frame;
  }

  // Polls the client while `frame` is sent, which may wait for a credit.
  absl::Status SendWhilePolling(const std::string& frame) {
    std::atomic<bool> done = false;
    absl::Status status;
    std::thread server([&] {
      status = raw_->Send(frame);
      done = true;
    });
    EXPECT_TRUE(client_->RunUntil([&done] { return done.load(); }));
    server.join();
    return status;
  }

  // A response to `request` with a message of `bytes` in the frame.
  ResponseHeader Response(const RequestHeader& request, uint32_t bytes = 0) {
    ResponseHeader response = {};
    response.frame = raw_->Header(FrameType::kResponse, request.frame.call_id);
    response.message_bytes = bytes;
    return response;
  }
  ResponsePendingHeader Pending(const RequestHeader& request, uint32_t bytes) {
    ResponsePendingHeader pending = {};
    pending.frame =
        raw_->Header(FrameType::kResponsePending, request.frame.call_id);
    pending.message_bytes = bytes;
    return pending;
  }

  // Sends `frame` while `call` is open. Expects that the call and the
  // connection end with `text` in their status and in the BYE.
  void ExpectEnd(TestCall& call, const std::string& frame,
                 const std::string& text) {
    ASSERT_TRUE(raw_->Send(frame).ok());
    ExpectEnd(call, text);
  }
  // As above, but sends nothing: the offending frame has been sent before.
  void ExpectEnd(TestCall& call, const std::string& text) {
    ASSERT_TRUE(client_->RunUntilDone(call));
    EXPECT_EQ(call.status().code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(call.status().message()), testing::HasSubstr(text));
    EXPECT_EQ(call.ends(), 1);
    EXPECT_FALSE(call.responded());
    EXPECT_TRUE(client_->connection().failed());
    // The BYE is on its way. The client does not poll any more, so it is
    // destroyed to end the connection.
    client_.reset();
    EXPECT_THAT(raw_->AwaitBye(), testing::HasSubstr(text));
  }

  static TestCall::Options Hinted() {
    TestCall::Options options;
    options.reply_hint_bytes = kReplyBytes;
    return options;
  }

  std::unique_ptr<RawListener> listener_;
  std::unique_ptr<RawPeer> raw_;
  std::unique_ptr<TestClient> client_;

 private:
  std::thread connecting_;
  absl::StatusOr<LoneConnection> connected_ = absl::UnknownError("not yet");
};

}  // namespace verbena::transport

#endif  // VERBENA_TESTS_TRANSPORT_HOSTILE_SERVER_FIXTURE_H_
