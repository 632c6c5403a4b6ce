// Deadlines, seen from a client that has none of its own: it sends one, and
// waits for what the server makes of it.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "proto/method_hash.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/polling/poller.h"
#include "transport/wire/frame.h"

namespace verbena::end_to_end {
namespace {

using transport::FrameText;
using transport::FrameType;
using transport::HeaderOf;
using transport::RawPeer;
using transport::RequestHeader;
using transport::ResponseHeader;

constexpr uint64_t kBlock = MethodHash("verbena.end_to_end.EndToEnd/Block");
constexpr uint64_t kDescribe = MethodHash("verbena.end_to_end.Inline/Describe");

class DeadlineTest : public EndToEndTest {
 protected:
  void Connect() {
    absl::StatusOr<std::unique_ptr<RawPeer>> client =
        RawPeer::Create(target(), RawPeer::Options());
    CHECK(client.ok()) << client.status().ToString();
    client_ = *std::move(client);
    ASSERT_EQ(client_->Open(), absl::OkStatus());
  }

  void SendBlock(uint32_t call_id, const std::string& key,
                 uint64_t timeout_us) {
    Key message;
    message.set_key(key);
    const std::string body = message.SerializeAsString();
    RequestHeader request = client_->InlineRequest(
        call_id, kBlock, static_cast<uint32_t>(body.size()));
    request.timeout_us = timeout_us;
    EXPECT_EQ(client_->Send(FrameText(request, body)), absl::OkStatus());
  }

  // "4 verbena.end_to_end.EndToEnd/Block: ..." for the next call that ends.
  std::string NextStatus() {
    const absl::StatusOr<std::string> frame =
        client_->Receive(FrameType::kResponse);
    if (!frame.ok()) return frame.status().ToString();
    const auto response = HeaderOf<ResponseHeader>(*frame);
    return std::to_string(response.code) + " " +
           frame->substr(sizeof(response), response.status_message_bytes);
  }

  std::unique_ptr<RawPeer> client_;
};

constexpr char kExpired[] =
    "4 verbena.end_to_end.EndToEnd/Block: the deadline of the call has passed";

TEST_F(DeadlineTest, AHandlerThatReturnsBecauseOfItHasNotSucceeded) {
  StartServer();
  Connect();
  SendBlock(1, "key", 20000);
  EXPECT_EQ(NextStatus(), kExpired);
}

TEST_F(DeadlineTest, ItEndsACallThatStillWaitsForAWorker) {
  StartServer([](ServerBuilder& builder) {
    builder.SetWorkerThreads(1).SetMaxWorkerThreads(1);
  });
  Connect();
  SendBlock(1, "first", transport::kNoTimeout);
  service().AwaitBlocked("first");
  SendBlock(2, "second", 0);
  service().Release("first");
  EXPECT_EQ(NextStatus(), "0 ");
  EXPECT_EQ(NextStatus(), kExpired);
}

// Handlers that are slower than the load: what nobody waits for any more costs
// them nothing.
TEST_F(DeadlineTest, NoHandlerRunsForCallsThatItEndedInTheQueue) {
  StartServer([](ServerBuilder& builder) {
    builder.SetWorkerThreads(1).SetMaxWorkerThreads(1);
  });
  Connect();
  SendBlock(0, "first", transport::kNoTimeout);
  service().AwaitBlocked("first");
  constexpr uint32_t kLate = 20;
  for (uint32_t i = 1; i <= kLate; ++i) SendBlock(i, "late", 0);
  SendBlock(kLate + 1, "last", transport::kNoTimeout);
  // The poller answers this call itself. When the answer is there, the poller
  // has put the calls before it into the queue.
  EXPECT_EQ(
      client_->Send(FrameText(client_->InlineRequest(kLate + 2, kDescribe, 0))),
      absl::OkStatus());
  EXPECT_EQ(NextStatus(), "0 ");
  const absl::Time passed = base::Now() + transport::Poller::kNowAgeMax;
  while (base::Now() <= passed) {
  }
  // Workers take calls in their order.
  service().Release("first");
  service().Release("last");
  std::vector<std::string> ends;
  for (uint32_t i = 0; i < kLate + 2; ++i) ends.push_back(NextStatus());
  EXPECT_EQ(std::count(ends.begin(), ends.end(), "0 "), 2);
  EXPECT_EQ(std::count(ends.begin(), ends.end(), kExpired), int{kLate});
  EXPECT_EQ(service().blocks("late"), 0);
}

}  // namespace
}  // namespace verbena::end_to_end
