// The connection manager to another host: over TCP, in one process.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "transport/base/socket_address.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/cm/cm_test_end.h"
#include "transport/soft/cm/network_of_own.h"
#include "transport/verbs/cm_id.h"

namespace verbena::soft {
namespace {

// How many of the next TCP listeners find that another program has the port.
std::atomic<int> ports_taken{0};

}  // namespace
}  // namespace verbena::soft

// Takes the place of libc's function.
extern "C" int listen(int fd, int backlog) {
  int domain = AF_UNIX;
  socklen_t length = sizeof(domain);
  getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length);
  if (domain != AF_UNIX && verbena::soft::ports_taken.load() > 0) {
    --verbena::soft::ports_taken;
    errno = EADDRINUSE;
    return -1;
  }
  return static_cast<int>(syscall(SYS_listen, fd, backlog));
}

namespace verbena::soft {
namespace {

// Far less than it would take to wait for a relay that lingers, which nobody
// does.
constexpr std::chrono::milliseconds kAtOnce(500);

class CmRemoteTest : public testing::Test {
 protected:
  CmRemoteTest() : port(server.Listen("0.0.0.0:0").port()) {}

  std::chrono::nanoseconds TimeToHangUp(CmTestEnd& end) {
    const auto begin = std::chrono::steady_clock::now();
    end.Hangup();
    return std::chrono::steady_clock::now() - begin;
  }

  CmTestEnd server;
  CmTestEnd client;
  const uint16_t port;
};

// The sockets of both lead to relays of their own processes.
TEST_F(CmRemoteTest, NobodyKnowsWhoseProcessAPeerOfAnotherHostIs) {
  client.Dial(OtherHost(port));
  server.TakeRequest();
  server.ExpectOk(server.Accept(""));
  client.Expect(RDMA_CM_EVENT_ESTABLISHED);
  server.Expect(RDMA_CM_EVENT_ESTABLISHED);
  uid_t user = 0;
  EXPECT_FALSE(TestProvider().peer_user(client.id().get(), &user));
  EXPECT_FALSE(TestProvider().peer_user(server.id().get(), &user));
}

TEST_F(CmRemoteTest, MessagesGoBothWays) {
  client.Dial(OtherHost(port), "from afar");
  EXPECT_EQ(CmTestEnd::Data(server.TakeRequest()), "from afar");
  server.ExpectOk(server.Accept("welcome"));
  EXPECT_EQ(CmTestEnd::Data(client.Expect(RDMA_CM_EVENT_ESTABLISHED)),
            "welcome");
  server.Expect(RDMA_CM_EVENT_ESTABLISHED);
  server.PostReceive();
  client.Send("there");
  EXPECT_EQ(client.Complete(), IBV_WC_SUCCESS);
  EXPECT_EQ(server.Complete(), IBV_WC_SUCCESS);
  EXPECT_EQ(server.Received(), "there");
}

TEST_F(CmRemoteTest, AnIdThatWasRejectedIsDestroyedAtOnce) {
  client.Dial(OtherHost(port));
  server.TakeRequest();
  server.Hangup();  // Which rejects it.
  client.Expect(RDMA_CM_EVENT_REJECTED);
  EXPECT_LT(TimeToHangUp(client), kAtOnce);
}

TEST_F(CmRemoteTest, AnIdForWhichNobodyListensIsDestroyedAtOnce) {
  server.StopListening();
  client.Dial(OtherHost(port));
  EXPECT_EQ(client.Expect(RDMA_CM_EVENT_REJECTED).status, 8);
  EXPECT_LT(TimeToHangUp(client), kAtOnce);
}

// Strangers connect to the listener's TCP port. They say nothing, or nonsense,
// or leave at once.
TEST_F(CmRemoteTest, StrangersKeepNobodyOut) {
  constexpr char kNonsense[] = "GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n";
  const base::SocketAddress address = OtherHost(port);
  std::vector<base::UniqueFd> strangers;
  for (int i = 0; i < 300; ++i) {
    base::UniqueFd stranger(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(stranger.get(), address.get(), address.size()), 0);
    if (i % 3 == 0) ::send(stranger.get(), kNonsense, sizeof(kNonsense), 0);
    if (i % 3 != 1) strangers.push_back(std::move(stranger));
  }
  client.Dial(address);
  server.TakeRequest();
}

TEST_F(CmRemoteTest, APortThatAnotherProgramHasIsNotListenedAt) {
  const base::UniqueFd other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  base::SocketAddress address =
      *base::SocketAddress::ParseNumeric(std::string(kOwnAddress) + ":0");
  ASSERT_EQ(::bind(other.get(), address.get(), address.size()), 0);
  ASSERT_EQ(::listen(other.get(), 1), 0);
  sockaddr_in name = {};
  socklen_t length = sizeof(name);
  ::getsockname(other.get(), reinterpret_cast<sockaddr*>(&name), &length);
  address.set_port(ntohs(name.sin_port));
  transport::CmId id =
      *transport::CmId::Create(TestProvider(), client.channel());
  ASSERT_TRUE(id.BindAddr(address).ok());
  const absl::Status status = id.Listen(1);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("Address already in use"));
}

TEST_F(CmRemoteTest, AListenerThatLeavesTheChoiceGetsAPortThatIsFree) {
  ports_taken = 3;
  CmTestEnd other;
  EXPECT_NE(other.Listen("0.0.0.0:0").port(), 0);
  EXPECT_EQ(ports_taken.load(), 0);
}

}  // namespace
}  // namespace verbena::soft

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  verbena::soft::EnterNetworkOfOurOwn();
  return RUN_ALL_TESTS();
}
