// A device refuses the BYE of a client: the connection ends at once, and for
// the reason that the BYE was to tell.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tests/testing/test_device.h"
#include "tests/testing/transport_client.h"
#include "tests/transport/faulty_fixture.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/check.h"
#include "transport/base/socket_address.h"
#include "transport/client/lone_connection.h"
#include "transport/faulty/fault_plan.h"
#include "transport/polling/poller_counters.h"
#include "transport/session/connection_state.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;
using testing_support::TestClient;
using testing_support::TestOptions;

class RefusedByeTest : public FaultyFixture {
 protected:
  RefusedByeTest() : listener_(*RawListener::Create()) {
    faulty_.SetPlan(plan_);
    absl::StatusOr<LoneConnection> connected = absl::UnknownError("not yet");
    std::thread connecting([this, &connected] {
      connected = LoneConnection::Connect(
          faulty_.provider(),
          *base::SocketAddress::ParseNumeric(listener_->address()),
          TestOptions());
    });
    absl::StatusOr<std::unique_ptr<RawPeer>> raw = listener_->Next();
    CHECK(raw.ok()) << raw.status().ToString();
    raw_ = *std::move(raw);
    const absl::Status welcome = raw_->AcceptAndWelcome();
    CHECK(welcome.ok()) << welcome.ToString();
    connecting.join();
    CHECK(connected.ok()) << connected.status().ToString();
    client_.emplace(*std::move(connected));
  }

  ClientConnection& connection() { return client_->connection(); }
  // Returns how many connections of the client are in `state`.
  uint64_t InState(ConnectionState state) {
    uint64_t count = 0;
    connection().poller().counters().VisitDevices(
        [&](absl::string_view /*name*/, const DeviceCounters& counters) {
          count += counters.connections[static_cast<size_t>(state)].value();
        });
    return count;
  }

  FaultPlan plan_;
  std::unique_ptr<RawListener> listener_;
  std::unique_ptr<RawPeer> raw_;
  std::optional<TestClient> client_;
};

TEST_F(RefusedByeTest, IsNotWaitedFor) {
  plan_.FailCall("post_send", plan_.calls("post_send") + 1, EIO);
  // Only clients send REQUESTs, so this one is answered by a BYE.
  RequestHeader request = {};
  request.frame = raw_->Header(FrameType::kRequest);
  request.timeout_us = kNoTimeout;
  ASSERT_TRUE(raw_->Send(FrameText(request)).ok());
  ASSERT_TRUE(client_->RunUntil([this] { return connection().failed(); }));
  EXPECT_EQ(plan_.faults().size(), 1u);
  EXPECT_EQ(InState(ConnectionState::kSayingBye), 0u);
  EXPECT_THAT(std::string(connection().failure().message()),
              HasSubstr("the peer broke the protocol"));
  EXPECT_TRUE(client_->RunUntil([this] { return connection().closed(); }));
}

}  // namespace
}  // namespace verbena::transport
