// The connection manager on a manual clock.

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>

#include "transport/base/socket_address.h"
#include "transport/soft/cm/cm_test_end.h"
#include "transport/soft/simulation.h"

namespace verbena::soft {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

class SimulationCmTest : public testing::Test {
 protected:
  // Lets the device run until `end` has an event, and says how long that took.
  nanoseconds Await(CmTestEnd& end) {
    const Simulation::TimePoint start = simulation_.Now();
    EXPECT_TRUE(simulation_.RunUntil(
        [&] {
          pollfd readable = {end.channel().fd(), POLLIN, 0};
          return ::poll(&readable, 1, 0) == 1;
        },
        seconds(60)));
    return simulation_.Now() - start;
  }

  // Brings the client to have asked, and the server to have been asked.
  void Ask() {
    client_.Dial(server_.Listen("127.0.0.1:0"));
    Await(server_);
    server_.TakeRequest();
  }

  // The first member, so that it is there before the ends use the device.
  Simulation& simulation_ = Simulation::Begin();
  CmTestEnd client_;
  CmTestEnd server_;
};

TEST_F(SimulationCmTest, TwoSidesConnectAndTalk) {
  Ask();
  server_.PostReceive();
  server_.ExpectOk(server_.Accept(""));
  Await(client_);
  client_.Expect(RDMA_CM_EVENT_ESTABLISHED);
  Await(server_);
  server_.Expect(RDMA_CM_EVENT_ESTABLISHED);
  client_.Send("hello");
  EXPECT_EQ(server_.Complete(), IBV_WC_SUCCESS);
  EXPECT_EQ(server_.Received(), "hello");
}

TEST_F(SimulationCmTest, AServerThatDoesNotAnswerIsGivenUpAfterFiveSeconds) {
  const auto started = std::chrono::steady_clock::now();
  Ask();
  const nanoseconds after = Await(client_);
  client_.Expect(RDMA_CM_EVENT_UNREACHABLE);
  EXPECT_GE(after, seconds(5) - milliseconds(1));
  EXPECT_LE(after, seconds(5));
  EXPECT_LT(std::chrono::steady_clock::now() - started, seconds(2));
}

TEST_F(SimulationCmTest, AServerThatAnswersInTimeIsInTime) {
  Ask();
  simulation_.RunFor(milliseconds(4900));
  server_.ExpectOk(server_.Accept(""));
  Await(client_);
  client_.Expect(RDMA_CM_EVENT_ESTABLISHED);
}

TEST_F(SimulationCmTest, NobodyListensIsKnownSoon) {
  base::SocketAddress nobody = server_.Listen("127.0.0.1:0");
  server_.StopListening();
  client_.Dial(nobody);
  EXPECT_LT(Await(client_), seconds(2));
  client_.Expect(RDMA_CM_EVENT_REJECTED);
}

}  // namespace
}  // namespace verbena::soft
