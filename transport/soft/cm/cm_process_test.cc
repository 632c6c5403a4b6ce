// Connections between two processes, one of which may be killed.
//
// Both processes run this binary. If its first argument is "serve" or "call",
// it is the other process.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/child_process.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/base/socket_address.h"
#include "transport/soft/cm/cm_test_end.h"

namespace verbena::soft {
namespace {

// The longest that it may take to notice that a peer is dead. The kernel tells
// at once, but only to a process that gets a processor.
constexpr absl::Duration kDeathNoticed = absl::Seconds(10);

base::SocketAddress Address(absl::string_view text) {
  return *base::SocketAddress::ParseNumeric(text);
}

// Tells the parent process something.
void Say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

// Waits for the connection to end, or for this process to be killed.
void WaitForTheEnd(CmTestEnd& end) {
  while (true) {
    const auto event = end.channel().WaitEvent(absl::Seconds(60));
    CHECK(event.ok() && event->has_value());
    if ((*event)->type == RDMA_CM_EVENT_DISCONNECTED) return;
  }
}

// Listens at `address`, says where, answers one request with what came with it,
// and one message with the same message.
int Serve(absl::string_view address, bool accept) {
  CmTestEnd end;
  Say(end.Listen(address).ToString());
  const transport::CmEvent request = end.TakeRequest();
  Say("requested");
  if (!accept) {
    ::pause();
    return 1;
  }
  end.PostReceive();
  end.ExpectOk(end.Accept(absl::StrCat("echo ", CmTestEnd::Data(request))));
  end.Expect(RDMA_CM_EVENT_ESTABLISHED);
  if (end.Complete() == IBV_WC_SUCCESS) end.Send(end.Received());
  WaitForTheEnd(end);
  return testing::Test::HasFailure() ? 1 : 0;
}

int Call(absl::string_view address) {
  CmTestEnd end;
  end.Dial(Address(address), "hello");
  end.Expect(RDMA_CM_EVENT_ESTABLISHED);
  Say("established");
  WaitForTheEnd(end);
  return testing::Test::HasFailure() ? 1 : 0;
}

using testing_support::ChildProcess;

// The command line that starts another process of this binary.
std::vector<std::string> Peer(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "/proc/self/exe");
  return arguments;
}

TEST(CmProcessTest, ConnectsAndCarriesMessages) {
  for (const std::string address : {"127.0.0.1:0", "[::1]:0"}) {
    ChildProcess server(Peer({"serve", address}));
    CmTestEnd client;
    client.Dial(Address(server.ReadLine()), "hello");
    EXPECT_EQ(CmTestEnd::Data(client.Expect(RDMA_CM_EVENT_ESTABLISHED)),
              "echo hello");
    client.PostReceive();
    client.Send("across");
    EXPECT_EQ(client.Complete(), IBV_WC_SUCCESS);
    EXPECT_EQ(client.Complete(), IBV_WC_SUCCESS);
    EXPECT_EQ(client.Received(), "across");
    EXPECT_TRUE(client.id().Disconnect().ok());
    EXPECT_EQ(server.Wait(), 0);
  }
}

TEST(CmProcessTest, NoticesThatTheServerWasKilled) {
  ChildProcess server(Peer({"serve", "127.0.0.1:0"}));
  CmTestEnd client;
  client.Dial(Address(server.ReadLine()));
  client.Expect(RDMA_CM_EVENT_ESTABLISHED);
  client.PostReceive();
  const absl::Time killed = base::Now();
  server.Kill();
  client.Expect(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(client.Complete(), IBV_WC_WR_FLUSH_ERR);
  EXPECT_LT(base::Now() - killed, kDeathNoticed);
  EXPECT_EQ(client.QpState(), IBV_QPS_ERR);
}

TEST(CmProcessTest, NoticesThatTheClientWasKilled) {
  CmTestEnd server;
  ChildProcess client(Peer({"call", server.Listen("127.0.0.1:0").ToString()}));
  server.TakeRequest();
  server.PostReceive();
  EXPECT_TRUE(server.Accept("").ok());
  server.Expect(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(client.ReadLine(), "established");
  const absl::Time killed = base::Now();
  client.Kill();
  server.Expect(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(server.Complete(), IBV_WC_WR_FLUSH_ERR);
  EXPECT_LT(base::Now() - killed, kDeathNoticed);
}

TEST(CmProcessTest, FailsSendsUnderWayToAProcessThatWasKilled) {
  ChildProcess server(Peer({"serve", "127.0.0.1:0"}));
  CmTestEnd client;
  client.Dial(Address(server.ReadLine()));
  client.Expect(RDMA_CM_EVENT_ESTABLISHED);
  server.Stop();
  const absl::Time stopped = base::Now();
  client.Send("lost");
  server.Kill();
  EXPECT_EQ(client.Complete(), IBV_WC_RETRY_EXC_ERR);
  client.Expect(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_LT(base::Now() - stopped, kDeathNoticed);
}

TEST(CmProcessTest, IsRejectedByAServerThatIsKilledBeforeItAnswers) {
  ChildProcess server(Peer({"serve", "127.0.0.1:0", "silently"}));
  CmTestEnd client;
  client.Dial(Address(server.ReadLine()));
  EXPECT_EQ(server.ReadLine(), "requested");
  server.Kill();
  const transport::CmEvent event = client.Expect(RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(event.status, transport::kRejectNobodyListens);
}

TEST(CmProcessTest, GivesUpOnAServerThatIsStopped) {
  ChildProcess server(Peer({"serve", "127.0.0.1:0"}));
  const base::SocketAddress address = Address(server.ReadLine());
  server.Stop();
  CmTestEnd client;
  client.Dial(address);
  client.Expect(RDMA_CM_EVENT_UNREACHABLE);
}

TEST(CmProcessTest, FreesTheAddressOfAProcessThatWasKilled) {
  ChildProcess server(Peer({"serve", "127.0.0.1:0"}));
  const base::SocketAddress address = Address(server.ReadLine());
  CmTestEnd other;
  transport::CmId id =
      *transport::CmId::Create(TestProvider(), other.channel());
  EXPECT_EQ(id.BindAddr(address).code(), absl::StatusCode::kAlreadyExists);
  server.Kill();
  EXPECT_TRUE(id.BindAddr(address).ok());
}

}  // namespace

int RunPeer(int argc, char** argv) {
  const std::string role = argc > 2 ? argv[1] : "";
  if (role == "serve") return Serve(argv[2], /*accept=*/argc == 3);
  if (role == "call") return Call(argv[2]);
  return 2;
}

}  // namespace verbena::soft

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) return verbena::soft::RunPeer(argc, argv);
  return RUN_ALL_TESTS();
}
