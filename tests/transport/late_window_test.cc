// A client allows more of a stream that the server has ended, while the device
// still READs a long message of it.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/testing/test_device.h"
#include "tests/transport/faulty_fixture.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/base/limits.h"
#include "transport/faulty/fault_plan.h"
#include "transport/polling/posted_function.h"
#include "transport/server/server_call.h"
#include "transport/server_endpoint.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

using testing_support::kTestTimeout;
using testing_support::TestListenAddress;
using testing_support::TestOptions;

bool Await(absl::FunctionRef<bool()> done) {
  const absl::Time deadline = base::Now() + kTestTimeout;
  while (!done()) {
    if (base::Now() >= deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// Keeps its only call until the test ends it.
class OneCallHandler final : public ServerHandler {
 public:
  void OnCall(ServerCall* call) override { call_ = call; }
  void OnCancelled(ServerCall* /*call*/) override {}

  ServerCall* call() const { return call_; }

 private:
  std::atomic<ServerCall*> call_ = nullptr;
};

class LateWindowTest : public FaultyFixture {
 protected:
  LateWindowTest() {
    faulty_.SetPlan(plan_);
    ServerEndpoint::Options options;
    options.endpoint = TestOptions();
    options.addresses = {TestListenAddress()};
    options.provider = &faulty_.provider();
    absl::StatusOr<std::unique_ptr<ServerEndpoint>> server =
        ServerEndpoint::Start(options, handler_);
    CHECK(server.ok()) << server.status().ToString();
    server_ = *std::move(server);
    absl::StatusOr<std::unique_ptr<RawPeer>> raw =
        RawPeer::Create(server_->listening().front().address, {});
    CHECK(raw.ok()) << raw.status().ToString();
    raw_ = *std::move(raw);
    const absl::Status open = raw_->Open();
    CHECK(open.ok()) << open.ToString();
  }

  // Runs `function` on the server's poller, behind the round that goes on, and
  // waits until it has returned.
  void RunOnPoller(absl::FunctionRef<void()> function) {
    std::atomic<bool> ended = false;
    PostFunction(*poller_, [&ended, function] {
      function();
      ended = true;
    });
    EXPECT_TRUE(Await([&ended] { return ended.load(); }));
  }

  // Opens a stream, and waits until the poller has ended the round in which the
  // REQUEST came.
  void OpenStream() {
    RequestHeader request = {};
    request.frame = raw_->Header(FrameType::kRequest);
    request.frame.flags = kFlagStream;
    request.timeout_us = kNoTimeout;
    ASSERT_TRUE(raw_->Send(FrameText(request)).ok());
    ASSERT_TRUE(Await([this] { return handler_.call() != nullptr; }));
    poller_ = &handler_.call()->poller();
    RunOnPoller([] {});
  }

  // Sends a long message. The server posts the READ of it, but does not see its
  // completion before the test releases completions. The poller waits in the
  // post until they are stalled.
  void SendMessage() {
    RunOnPoller([this] {
      plan_.DelayCall("post_send", plan_.calls("post_send") + 1, kTestTimeout);
    });
    LongMessageHeader message = {};
    message.frame = raw_->Header(FrameType::kMessage);
    message.frame.flags = kFlagAttachmentInArena;
    message.attachment_bytes = 100000;
    ASSERT_TRUE(raw_->Send(FrameText(message)).ok());
    ASSERT_TRUE(Await([this] { return !plan_.faults().empty(); }));
    plan_.StallCompletions();
    plan_.ReleaseCalls();
  }

  FaultPlan plan_;
  OneCallHandler handler_;
  std::unique_ptr<ServerEndpoint> server_;
  std::unique_ptr<RawPeer> raw_;
  Poller* poller_ = nullptr;
};

// The handler ends the stream, but the RESPONSE waits for the READ. The server
// reads the WINDOW in between.
TEST_F(LateWindowTest, DoesNothingToAStreamThatIsOver) {
  ASSERT_NO_FATAL_FAILURE(OpenStream());
  ASSERT_NO_FATAL_FAILURE(SendMessage());
  RunOnPoller([this] {
    ServerCall::Reply reply;
    reply.message_bytes = UINT32_MAX;  // More than anybody takes.
    handler_.call()->Finish(std::move(reply));
  });
  WindowHeader window = {};
  window.frame = raw_->Header(FrameType::kWindow);
  window.limit = 2 * kStreamWindowBytes;
  ASSERT_TRUE(raw_->Send(FrameText(window)).ok());
  ASSERT_TRUE(raw_->Flush().ok());
  // A GRANT may have come, but no RESPONSE.
  while (true) {
    const absl::StatusOr<std::optional<std::string>> early = raw_->TryReceive();
    ASSERT_TRUE(early.ok()) << early.status();
    if (!early->has_value()) break;
    ASSERT_EQ(HeaderOf<FrameHeader>(**early).type, FrameType::kGrant);
  }
  RunOnPoller([this] { plan_.ReleaseCompletions(); });
  const absl::StatusOr<std::string> response =
      raw_->Receive(FrameType::kResponse);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(HeaderOf<ResponseHeader>(*response).code,
            static_cast<uint32_t>(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace verbena::transport
