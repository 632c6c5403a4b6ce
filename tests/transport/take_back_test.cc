// A client takes a lease back while its send queue has no room for that.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/testing/test_device.h"
#include "tests/testing/transport_client.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/base/limits.h"
#include "transport/base/socket_address.h"
#include "transport/client/client_connection.h"
#include "transport/client/client_devices.h"
#include "transport/device/poller_device.h"
#include "transport/device/shared_sends.h"
#include "transport/polling/poller.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/event_channel.h"
#include "transport/wire/frame.h"
#include "transport/wire/frame_codec.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

using testing_support::kTestTimeout;
using testing_support::TestCall;
using testing_support::TestListenAddress;
using testing_support::TestOptions;
using testing_support::TestProvider;

EndpointOptions Revoking() {
  EndpointOptions options = TestOptions();
  options.revoke_leases = true;
  return options;
}

// A raw server, and a client whose device the test reaches.
class TakeBackTest : public testing::Test {
 protected:
  TakeBackTest() {
    poller_->Enter();
    client_.Begin();
    absl::Status welcome;
    std::thread server([this, &welcome] {
      absl::StatusOr<std::unique_ptr<RawPeer>> raw = listener_->Next();
      CHECK(raw.ok()) << raw.status().ToString();
      raw_ = *std::move(raw);
      welcome = raw_->AcceptAndWelcome();
    });
    EXPECT_TRUE(RunUntil([this] { return !client_.connecting(); }));
    server.join();
    EXPECT_TRUE(welcome.ok()) << welcome;
    EXPECT_TRUE(client_.usable()) << client_.failure();
  }
  ~TakeBackTest() override {
    client_.Close();
    EXPECT_TRUE(RunUntil([this] { return client_.closed(); }));
    for (; taken_ > 0; --taken_) SharedRoom().Release();
    poller_->Leave();
  }

  bool RunUntil(absl::FunctionRef<bool()> done) {
    const absl::Time deadline = base::Now() + kTestTimeout;
    while (!done()) {
      if (poller_->PollOnce() > 0) continue;
      if (base::Now() >= deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  // Starts a call, which lives as long as the connection.
  TestCall& Start(const TestCall::Options& options = {}) {
    calls_.push_back(std::make_unique<TestCall>("x", options));
    client_.Start(calls_.back().get());
    return *calls_.back();
  }
  std::string ReceiveRequest() {
    absl::StatusOr<std::string> frame = raw_->Receive(FrameType::kRequest);
    CHECK(frame.ok()) << frame.status().ToString();
    return *std::move(frame);
  }
  // Answers `request` with nothing, and waits until the client's device has
  // that.
  void Answer(const std::string& request) {
    ResponseHeader response = {};
    response.frame = raw_->Header(
        FrameType::kResponse, HeaderOf<RequestHeader>(request).frame.call_id);
    ASSERT_TRUE(raw_->Send(FrameText(response)).ok());
    ASSERT_TRUE(raw_->Flush().ok());
  }

  // Returns the room that the client's connections share.
  SharedSends& SharedRoom() {
    EventChannel channel = *EventChannel::Create(TestProvider());
    CmId id = *CmId::Create(TestProvider(), channel);
    const absl::Status bound =
        id.BindAddr(*base::SocketAddress::ParseNumeric(TestListenAddress()));
    CHECK(bound.ok()) << bound.ToString();
    return (*devices_.DeviceFor(TestProvider(), id))->sending().shared;
  }
  // Takes all of it, as other connections of the device may.
  void TakeSharedRoom() {
    SharedSends& shared = SharedRoom();
    for (; shared.available(); ++taken_) shared.Take();
  }

  // Calls outlive the connection, which ends those that are left.
  std::vector<std::unique_ptr<TestCall>> calls_;
  std::unique_ptr<RawListener> listener_ = *RawListener::Create();
  std::unique_ptr<Poller> poller_ = *Poller::Create();
  ClientDevices devices_{*poller_};
  ClientConnection client_{
      devices_, TestProvider(),
      *base::SocketAddress::ParseNumeric(listener_->address()), Revoking(),
      /*observer=*/nullptr};
  std::unique_ptr<RawPeer> raw_;
  uint32_t taken_ = 0;
};

// The answer comes while frames have all the room. No other lease is taken
// back.
TEST_F(TakeBackTest, IsPostedAsSoonAsThereIsRoom) {
  TestCall& first = Start();
  Answer(ReceiveRequest());
  ASSERT_TRUE(RunUntil([&first] { return first.done(); }));

  TestCall::Options hinted;
  hinted.reply_hint_bytes = 100000;
  TestCall& lender = Start(hinted);
  const std::string frame = ReceiveRequest();
  const RequestBody body = SplitRequest(absl::MakeConstSpan(
      reinterpret_cast<const uint8_t*>(frame.data()), frame.size()));
  ASSERT_NE(body.lease_rkey, 0u);
  Answer(frame);
  TakeSharedRoom();
  uint32_t sent = 0;
  while (Start().written()) ASSERT_LT(++sent, kOwnSends);
  const TestCall& last = *calls_.back();

  // The completion of one of the frames makes room. The last call is posted
  // behind the take-back, so its REQUEST says that the key is gone.
  ASSERT_TRUE(RunUntil([&] { return lender.done() && last.written(); }));
  EXPECT_TRUE(lender.status().ok()) << lender.status();
  for (uint32_t i = 0; i <= sent; ++i) ReceiveRequest();
  const absl::StatusOr<ConnectRequest> hello =
      DecodeConnectRequest(raw_->connect_event().private_data());
  ASSERT_TRUE(hello.ok()) << hello.status();
  ASSERT_TRUE(raw_->Write(hello->arena.address +
                              HeaderOf<RequestHeader>(frame).reply_offset,
                          body.lease_rkey, "late")
                  .ok());
  EXPECT_FALSE(raw_->Flush().ok());
}

}  // namespace
}  // namespace verbena::transport
