// Queue pairs that the user drives, and connects with the connection manager:
// on either side of a connection, or on both.

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <tuple>

#include "tests/testing/child_process.h"
#include "transport/base/socket_address.h"
#include "transport/soft/cm/cm_ops.h"
#include "transport/soft/cm/cm_test_end.h"

namespace verbena::soft {
namespace {

base::SocketAddress Address(const std::string& text) {
  return *base::SocketAddress::ParseNumeric(text);
}

// The active side, from the response on.
void BecomeReadyAndEstablish(CmTestEnd& client) {
  client.Expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  EXPECT_EQ(client.Modify(IBV_QPS_INIT), 0);
  EXPECT_EQ(client.Modify(IBV_QPS_RTR), 0);
  EXPECT_EQ(client.Modify(IBV_QPS_RTS), 0);
  EXPECT_EQ(Establish(client.id().get()), 0);
}

// A message from `from` to `to`, both of this process.
void ExpectMessage(CmTestEnd& from, CmTestEnd& to, const char* text) {
  to.PostReceive();
  from.Send(text);
  EXPECT_EQ(from.Complete(), IBV_WC_SUCCESS);
  EXPECT_EQ(to.Complete(), IBV_WC_SUCCESS);
  EXPECT_EQ(to.Received(), text);
}

class OwnQueuePairTest : public testing::Test {
 protected:
  // A client that drives its own queue pair has been accepted.
  void GetAResponse() {
    client_.DriveOwnQueuePairs();
    client_.Dial(server_.Listen("127.0.0.1:0"));
    server_.TakeRequest();
    server_.ExpectOk(server_.Accept(""));
    client_.Expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  }

  CmTestEnd server_;
  CmTestEnd client_;
};

TEST_F(OwnQueuePairTest, BothSidesDriveTheirOwn) {
  client_.DriveOwnQueuePairs();
  client_.Dial(server_.Listen("127.0.0.1:0"), "hello");
  server_.TakeRequestReady();
  server_.ExpectOk(server_.Accept("welcome"));
  BecomeReadyAndEstablish(client_);
  server_.Expect(RDMA_CM_EVENT_ESTABLISHED);
  client_.ExpectNothing();
  ExpectMessage(client_, server_, "there");
  ExpectMessage(server_, client_, "and back");
  client_.ExpectOk(client_.id().Disconnect());
  client_.Expect(RDMA_CM_EVENT_DISCONNECTED);
  server_.Expect(RDMA_CM_EVENT_DISCONNECTED);
}

TEST_F(OwnQueuePairTest, TheActiveSideDrivesItsOwn) {
  client_.DriveOwnQueuePairs();
  client_.Dial(server_.Listen("127.0.0.1:0"));
  server_.TakeRequest();
  server_.ExpectOk(server_.Accept(""));
  BecomeReadyAndEstablish(client_);
  server_.Expect(RDMA_CM_EVENT_ESTABLISHED);
  ExpectMessage(client_, server_, "there");
  ExpectMessage(server_, client_, "and back");
}

TEST_F(OwnQueuePairTest, ThePassiveSideDrivesItsOwn) {
  client_.Dial(server_.Listen("127.0.0.1:0"));
  server_.TakeRequestReady();
  server_.ExpectOk(server_.Accept(""));
  client_.Expect(RDMA_CM_EVENT_ESTABLISHED);
  server_.Expect(RDMA_CM_EVENT_ESTABLISHED);
  ExpectMessage(client_, server_, "there");
  ExpectMessage(server_, client_, "and back");
}

// READs that each side may have under way are what the two have agreed on, as
// for a queue pair that the connection manager drives.
TEST_F(OwnQueuePairTest, HasTheAttributesThatTheSidesHaveAgreedOn) {
  GetAResponse();
  ibv_qp_attr attributes;
  int mask = 0;
  attributes.qp_state = IBV_QPS_RTR;
  ASSERT_EQ(InitQpAttr(client_.id().get(), &attributes, &mask), 0);
  EXPECT_EQ(attributes.dest_qp_num, server_.qp()->qp_num);
  EXPECT_EQ(attributes.max_dest_rd_atomic, 4);
  EXPECT_NE(mask & IBV_QP_MAX_DEST_RD_ATOMIC, 0);
  attributes.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(InitQpAttr(client_.id().get(), &attributes, &mask), 0);
  EXPECT_EQ(attributes.max_rd_atomic, 2);
  EXPECT_EQ(attributes.retry_cnt, 7);
  EXPECT_NE(mask & IBV_QP_MAX_QP_RD_ATOMIC, 0);
}

TEST_F(OwnQueuePairTest, OnlyTheFirstTransitionIsKnownBeforeTheAnswer) {
  client_.DriveOwnQueuePairs();
  client_.Resolve(server_.Listen("127.0.0.1:0"));
  EXPECT_EQ(client_.Modify(IBV_QPS_INIT), 0);
  EXPECT_EQ(client_.Modify(IBV_QPS_RTR), EINVAL);
  client_.ExpectOk(client_.Connect(""));
  server_.TakeRequest();
  EXPECT_EQ(client_.Modify(IBV_QPS_RTR), EINVAL);
  EXPECT_EQ(client_.Modify(IBV_QPS_ERR), EINVAL);
}

TEST_F(OwnQueuePairTest, EstablishesOnlyWhatWasAnswered) {
  client_.DriveOwnQueuePairs();
  client_.Resolve(server_.Listen("127.0.0.1:0"));
  EXPECT_EQ(Establish(client_.id().get()), -1);
  EXPECT_EQ(errno, EINVAL);
  client_.ExpectOk(client_.Connect(""));
  server_.TakeRequest();
  server_.ExpectOk(server_.Accept(""));
  BecomeReadyAndEstablish(client_);
  EXPECT_EQ(Establish(client_.id().get()), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(OwnQueuePairTest, MayBeRejectedByEitherSide) {
  client_.DriveOwnQueuePairs();
  const base::SocketAddress address = server_.Listen("127.0.0.1:0");
  client_.Dial(address);
  server_.TakeRequest();
  server_.ExpectOk(server_.id().Reject({}));
  client_.Expect(RDMA_CM_EVENT_REJECTED);

  client_.Dial(address);
  server_.TakeRequest();
  server_.ExpectOk(server_.Accept(""));
  client_.Expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  client_.ExpectOk(client_.id().Reject({}));
  server_.Expect(RDMA_CM_EVENT_REJECTED);
}

TEST_F(OwnQueuePairTest, IsRejectedByAUserWhoDisconnectsInstead) {
  GetAResponse();
  client_.ExpectOk(client_.id().Disconnect());
  client_.Expect(RDMA_CM_EVENT_DISCONNECTED);
  server_.Expect(RDMA_CM_EVENT_REJECTED);
}

TEST_F(OwnQueuePairTest, HearsThatThePeerHasGivenUp) {
  GetAResponse();
  server_.ExpectOk(server_.id().Disconnect());
  client_.Expect(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(Establish(client_.id().get()), -1);
}

TEST_F(OwnQueuePairTest, WithoutAnyQueuePairNothingIsConnected) {
  client_.DriveOwnQueuePairs();
  client_.Resolve(server_.Listen("127.0.0.1:0"));
  EXPECT_EQ(TestProvider().cm.connect(client_.id().get(), nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
}

// Answers one message with the same, as a server.
void Echo(CmTestEnd& server, bool drives_own) {
  if (drives_own) {
    server.TakeRequestReady();
  } else {
    server.TakeRequest();
  }
  server.PostReceive();
  server.ExpectOk(server.Accept(""));
  server.Expect(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(server.Complete(), IBV_WC_SUCCESS);
  server.Send(server.Received());
  server.Expect(RDMA_CM_EVENT_DISCONNECTED);
}

// Has one message answered, as a client.
void Call(const std::string& address, bool drives_own) {
  CmTestEnd client;
  if (drives_own) client.DriveOwnQueuePairs();
  client.Dial(Address(address));
  if (drives_own) {
    BecomeReadyAndEstablish(client);
  } else {
    client.Expect(RDMA_CM_EVENT_ESTABLISHED);
  }
  client.PostReceive();
  client.Send("across");
  EXPECT_EQ(client.Complete(), IBV_WC_SUCCESS);
  EXPECT_EQ(client.Complete(), IBV_WC_SUCCESS);
  EXPECT_EQ(client.Received(), "across");
  client.ExpectOk(client.id().Disconnect());
}

// Runs the other process. "serve" listens at `address` and prints the address
// with the port that it got. "call" connects to `address`.
int RunPeer(const std::string& role, bool drives_own,
            const std::string& address) {
  if (role == "call") {
    Call(address, drives_own);
  } else {
    CmTestEnd server;
    std::printf("%s\n", server.Listen(address).ToString().c_str());
    std::fflush(stdout);
    Echo(server, drives_own);
  }
  return testing::Test::HasFailure() ? 1 : 0;
}

// The process with the lower queue pair number makes the link. So each process
// is the server once.
class OwnQueuePairProcessTest
    : public testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  static std::string Own(bool drives_own) { return drives_own ? "own" : ""; }

  const bool server_drives_ = std::get<0>(GetParam());
  const bool client_drives_ = std::get<1>(GetParam());
};

TEST_P(OwnQueuePairProcessTest, IsConnectedToAServerOfAnotherProcess) {
  testing_support::ChildProcess server(
      {"/proc/self/exe", "serve", Own(server_drives_), "127.0.0.1:0"});
  Call(server.ReadLine(), client_drives_);
  EXPECT_EQ(server.Wait(), 0);
}

TEST_P(OwnQueuePairProcessTest, IsConnectedToAClientOfAnotherProcess) {
  CmTestEnd server;
  const std::string address = server.Listen("127.0.0.1:0").ToString();
  testing_support::ChildProcess client(
      {"/proc/self/exe", "call", Own(client_drives_), address});
  Echo(server, server_drives_);
  EXPECT_EQ(client.Wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(AllSides, OwnQueuePairProcessTest,
                         testing::Combine(testing::Bool(), testing::Bool()));

}  // namespace
}  // namespace verbena::soft

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc == 4) {
    return verbena::soft::RunPeer(argv[1], argv[2] == std::string("own"),
                                  argv[3]);
  }
  return RUN_ALL_TESTS();
}
