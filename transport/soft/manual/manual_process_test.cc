// Queue pairs of two processes that are connected manually, as ibv_rc_pingpong
// does it: by numbers that the two have told each other.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "transport/base/unique_fd.h"
#include "transport/soft/base/fd_message.h"
#include "transport/soft/base/other_user.h"
#include "transport/soft/connected/connected_queue_pair.h"
#include "transport/soft/connected/test_process_link.h"
#include "transport/soft/link/link.h"
#include "transport/soft/link/link_offer.h"
#include "transport/soft/link/number_blocks.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

constexpr int kRounds = 20;

// Children that are tried for a number on the other side of our own.
constexpr int kChildrenMax = 8;

TestEndOptions Options() {
  TestEndOptions options;
  options.timeout = 20;  // Four seconds: the child may be slow to get ready.
  return options;
}

void ToReadyToReceive(TestEnd& end, uint32_t peer) {
  ASSERT_EQ(end.To(IBV_QPS_INIT), 0);
  ASSERT_EQ(end.Receive(1, 0, 64), 0);
  ASSERT_EQ(end.ToReadyToReceive(peer), 0);
}

// Says "ping" and expects the answer, kRounds times.
void ExpectEcho(TestEnd& end) {
  for (int i = 0; i < kRounds; ++i) {
    end.Fill(64, "ping");
    ASSERT_EQ(end.Send(2, 64, 4), 0);
    for (int completions = 0; completions < 2; ++completions) {
      ASSERT_EQ(end.Wait().status, IBV_WC_SUCCESS);
    }
    EXPECT_EQ(end.Text(0, 4), "ping");
    ASSERT_EQ(end.Receive(1, 0, 64), 0);
  }
}

int EchoRounds(TestEnd& end) {
  for (int sent = 0; sent < kRounds;) {
    const ibv_wc completion = end.Wait();
    if (completion.status != IBV_WC_SUCCESS) return 1;
    if (completion.opcode != IBV_WC_RECV) {
      ++sent;
      continue;
    }
    end.Receive(1, 64, 64);
    end.Send(2, 0, completion.byte_len);
  }
  return 0;
}

int EchoChild(TestProcessLink& link) {
  TestEnd end(Options());
  const TestGreeting parent = link.Exchange(end);
  ToReadyToReceive(end, parent.qp_num);
  if (end.To(IBV_QPS_RTS) != 0) return 2;
  link.Exchange(end);
  const int result = EchoRounds(end);
  link.Exchange(end);
  return result;
}

// Connects twice: once this process is ready first, once the parent is. The
// queue pair with the lower number makes the link, so the parent tries this
// with numbers of either order.
int BothOrdersChild(TestProcessLink& link) {
  TestEnd end(Options());
  const TestGreeting parent = link.Exchange(end);
  for (const bool first : {true, false}) {
    if (!first) link.Exchange(end);  // The parent is ready to send.
    ToReadyToReceive(end, parent.qp_num);
    if (end.To(IBV_QPS_RTS) != 0) return 2;
    if (first) link.Exchange(end);
    if (EchoRounds(end) != 0) return 1;
    link.Exchange(end);
    if (end.To(IBV_QPS_RESET) != 0) return 3;
    link.Exchange(end);
  }
  return 0;
}

// Goes to RESET once the parent has had its echoes, and connects again.
int ResettingChild(TestProcessLink& link) {
  TestEnd end(Options());
  const TestGreeting parent = link.Exchange(end);
  for (int i = 0; i < 2; ++i) {
    ToReadyToReceive(end, parent.qp_num);
    if (end.To(IBV_QPS_RTS) != 0) return 2;
    link.Exchange(end);
    if (EchoRounds(end) != 0) return 1;
    link.Exchange(end);
    if (end.To(IBV_QPS_RESET) != 0) return 3;
    link.Exchange(end);
  }
  return 0;
}

constexpr int kLinksMade = 100;
constexpr int kMessages = 250;
// Between messages, so that there is always one in the moment in which the link
// comes, some 200 us after the peer was told to make it.
constexpr std::chrono::microseconds kPace(8);

TestEndOptions Unreliable() {
  TestEndOptions options;
  options.type = IBV_QPT_UC;
  options.send_depth = options.receive_depth = kMessages;
  return options;
}

// Sends while the peer makes the link, and expects all to have been sent.
void SendAtAPace(TestEnd& end) {
  auto due = std::chrono::steady_clock::now();
  for (int sent = 0; sent < kMessages; ++sent) {
    while (std::chrono::steady_clock::now() < due) {
    }
    due += kPace;
    ASSERT_EQ(end.Send(2, 0, 8), 0);
  }
  for (int sent = 0; sent < kMessages; ++sent) {
    ASSERT_EQ(end.Wait().status, IBV_WC_SUCCESS);
  }
}

// Connects kLinksMade times. The queue pair with the lower number makes the
// link, when the other is sending already, and expects all that is sent.
void MeetAgainAndAgain(TestProcessLink& link) {
  TestEnd end(Unreliable());
  const uint32_t peer = link.Exchange(end).qp_num;
  for (int i = 0; i < kLinksMade && !testing::Test::HasFailure(); ++i) {
    if (peer < end.qp->qp_num) {
      end.Connect(peer);
      link.Exchange(end);
      SendAtAPace(end);
    } else {
      ASSERT_EQ(end.To(IBV_QPS_INIT), 0);
      for (int j = 0; j < kMessages; ++j) ASSERT_EQ(end.Receive(1, 0, 8), 0);
      link.Exchange(end);
      ASSERT_EQ(end.ToReadyToReceive(peer), 0);
      for (int received = 0; received < kMessages; ++received) {
        ASSERT_EQ(end.Wait().status, IBV_WC_SUCCESS) << "after " << received;
      }
    }
    link.Exchange(end);
    ASSERT_EQ(end.To(IBV_QPS_RESET), 0);
    link.Exchange(end);
  }
}

int MeetingChild(TestProcessLink& link) {
  MeetAgainAndAgain(link);
  return testing::Test::HasFailure() ? 1 : 0;
}

// Exits with what it has received, and destroys nothing.
int LeavingChild(TestProcessLink& link) {
  TestEnd end(Options());
  const TestGreeting parent = link.Exchange(end);
  ToReadyToReceive(end, parent.qp_num);
  if (end.To(IBV_QPS_RTS) != 0) return 2;
  link.Exchange(end);
  std::exit(end.Wait().status == IBV_WC_SUCCESS ? 0 : 1);
}

// Never becomes ready, or is killed in the middle.
int SilentChild(TestProcessLink& link, bool ready) {
  TestEnd end(Options());
  const TestGreeting parent = link.Exchange(end);
  if (ready) end.Connect(parent.qp_num);
  link.Exchange(end);
  pause();
  return 0;
}

TEST(HandProcessTest, WhoeverIsReadyFirstIsFoundByTheOther) {
  TestEnd end(Options());
  TestProcessLink child = TestProcessLink::Start("echo, both orders");
  const TestGreeting peer = child.Exchange(end);
  for (const bool child_first : {true, false}) {
    if (child_first) child.Exchange(end);
    ToReadyToReceive(end, peer.qp_num);
    ASSERT_EQ(end.To(IBV_QPS_RTS), 0);
    if (!child_first) child.Exchange(end);
    ExpectEcho(end);
    child.Exchange(end);
    child.Exchange(end);  // The child is in RESET.
    ASSERT_EQ(end.To(IBV_QPS_RESET), 0);
  }
  EXPECT_EQ(child.WaitExit(), 0);
}

TEST(HandProcessTest, ConnectsAgainAfterReset) {
  TestEnd end(Options());
  TestProcessLink child = TestProcessLink::Start("resetting");
  const TestGreeting peer = child.Exchange(end);
  for (int i = 0; i < 2; ++i) {
    ToReadyToReceive(end, peer.qp_num);
    ASSERT_EQ(end.To(IBV_QPS_RTS), 0);
    child.Exchange(end);
    ExpectEcho(end);
    child.Exchange(end);
    child.Exchange(end);  // The child is in RESET.
    ASSERT_EQ(end.To(IBV_QPS_RESET), 0);
  }
  EXPECT_EQ(child.WaitExit(), 0);
}

// Guards against a request that counts as sent at that moment but is lost. On
// an unreliable connection nobody asks for it again.
TEST(HandProcessTest, NothingIsLostInTheMomentInWhichTheLinkComes) {
  TestProcessLink child = TestProcessLink::Start("meeting");
  MeetAgainAndAgain(child);
  EXPECT_EQ(child.WaitExit(), 0);
}

TEST(HandProcessTest, WhatAPeerHasReceivedIsAcknowledgedThoughItExits) {
  TestEnd end(Options());
  TestProcessLink child = TestProcessLink::Start("leaving");
  const TestGreeting peer = child.Exchange(end);
  ToReadyToReceive(end, peer.qp_num);
  ASSERT_EQ(end.To(IBV_QPS_RTS), 0);
  child.Exchange(end);
  ASSERT_EQ(end.Send(2, 0, 4), 0);
  EXPECT_EQ(child.WaitExit(), 0);
  EXPECT_EQ(end.Wait().status, IBV_WC_SUCCESS);
}

class SilentPeerTest : public testing::Test {
 protected:
  // How the request that the peer never answers ends, and how soon.
  ibv_wc_status StatusOfSend(TestEnd& end) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(end.Send(3, 0, 4), 0);
    const ibv_wc_status status = end.Wait().status;
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              std::chrono::seconds(5));
    return status;
  }
};

TEST_F(SilentPeerTest, SendToOneThatIsNeverReadyEnds) {
  bool lower = false;
  bool higher = false;
  for (int i = 0; i < kChildrenMax && !(lower && higher); ++i) {
    TestEndOptions patient;
    patient.timeout = 14;
    TestEnd end(patient);
    TestProcessLink child = TestProcessLink::Start("never ready");
    const TestGreeting peer = child.Exchange(end);
    (end.qp->qp_num < peer.qp_num ? lower : higher) = true;
    end.Connect(peer.qp_num);
    child.Exchange(end);
    EXPECT_EQ(StatusOfSend(end), IBV_WC_RETRY_EXC_ERR);
  }
}

TEST_F(SilentPeerTest, SendToANumberOfNobodyEnds) {
  TestEnd end;
  end.Connect(end.qp->qp_num ^ 0x800000);
  EXPECT_EQ(StatusOfSend(end), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(SilentPeerTest, DeathOfThePeerEndsWhatIsOutstanding) {
  TestEnd end(Options());
  TestProcessLink child = TestProcessLink::Start("silent");
  const TestGreeting peer = child.Exchange(end);
  end.Connect(peer.qp_num);
  child.Exchange(end);
  ASSERT_EQ(end.Send(3, 0, 4), 0);  // The child has posted no receive.
  child.Kill();
  EXPECT_EQ(end.Wait().status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(end.State(), IBV_QPS_ERR);
}

TEST(HostileOfferTest, GarbageOnASocketOfNumbersDoesNoHarm) {
  TestEnd end(Options());
  const base::UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM, 0));
  const base::UniqueFd no_socket(::eventfd(0, 0));
  const base::UniqueFd packets(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
  const base::UniqueFd no_link(::memfd_create("no link", 0));
  const std::string name = NumberBlocks::SocketName(end.qp->qp_num);
  for (const uint32_t kind : {0, 1, 2, 9}) {
    LinkOffer offer;
    offer.kind = static_cast<LinkOfferKind>(kind);
    offer.from = 1;
    offer.to = end.qp->qp_num;
    std::array<char, sizeof(offer) + 1> bytes = {};
    std::memcpy(bytes.data(), &offer, sizeof(offer));
    for (const FdsToPass fds :
         {kNoFds, FdsToPass{no_socket.get(), -1}, FdsToPass{socket.get(), -1},
          FdsToPass{no_socket.get(), socket.get()},
          FdsToPass{socket.get(), no_socket.get()},
          FdsToPass{no_link.get(), packets.get()}}) {
      for (size_t length = 0; length <= bytes.size(); ++length) {
        ASSERT_EQ(SendFdMessage(socket.get(), bytes.data(), length, fds, name),
                  0);
      }
    }
  }
  TestProcessLink child = TestProcessLink::Start("echo");
  const TestGreeting peer = child.Exchange(end);
  child.Exchange(end);
  ToReadyToReceive(end, peer.qp_num);
  ASSERT_EQ(end.To(IBV_QPS_RTS), 0);
  ExpectEcho(end);
  child.Exchange(end);
  EXPECT_EQ(child.WaitExit(), 0);
}

// Waits until `socket`, whose other end was passed on, has ended; returns
// whether it has.
bool HasEnded(const base::UniqueFd& socket, int timeout_ms) {
  pollfd descriptor = {.fd = socket.get(), .events = 0, .revents = 0};
  return poll(&descriptor, 1, timeout_ms) == 1;
}

// Offers a link of queue pair `from` to the one of `end`, and returns the end
// of its socket that we keep.
base::UniqueFd Offer(const TestEnd& end, uint32_t from) {
  int sockets[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets),
            0);
  const base::UniqueFd theirs(sockets[1]);
  const LinkMemory memory = *LinkMemory::Create();
  const base::UniqueFd sender(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  LinkOffer offer;
  offer.from = from;
  offer.to = end.qp->qp_num;
  EXPECT_EQ(SendFdMessage(sender.get(), &offer, sizeof(offer),
                          {memory.fd(), theirs.get()},
                          NumberBlocks::SocketName(end.qp->qp_num)),
            0);
  return base::UniqueFd(sockets[0]);
}

TEST(HostileOfferTest, AnotherUsersOfferIsNotKept) {
  if (!CanBeOtherUser()) GTEST_SKIP() << "only root can be another user";
  TestEnd end(Options());
  const base::UniqueFd own = Offer(end, 1);
  base::UniqueFd others;
  {
    const OtherUser other_user;
    others = Offer(end, 2);
  }
  EXPECT_TRUE(HasEnded(others, 10000));
  EXPECT_FALSE(HasEnded(own, 0));
}

TEST(HostileOfferTest, OffersThatNobodyTakesAreFew) {
  TestEnd end(Options());
  std::vector<base::UniqueFd> offers;
  for (uint32_t from = 1; from <= 5; ++from) {
    offers.push_back(Offer(end, from));
  }
  EXPECT_TRUE(HasEnded(offers[0], 10000));
  for (size_t i = 1; i < offers.size(); ++i) {
    EXPECT_FALSE(HasEnded(offers[i], 0));
  }
}

TEST(HostileOfferTest, WhoeverIsConnectedOtherwiseKeepsNone) {
  TestEnd end(Options());
  const base::UniqueFd before = Offer(end, 1);
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets),
            0);
  const base::UniqueFd own(sockets[0]);
  const base::UniqueFd peers(sockets[1]);
  ConnectedQueuePair* const qp = ConnectedQueuePair::From(end.qp);
  qp->AttachLink(*LinkMemory::Create(), LinkSide::kFirst, own.get());
  EXPECT_TRUE(HasEnded(before, 10000));
  EXPECT_TRUE(HasEnded(Offer(end, 1), 10000));
  qp->DetachLink();
}

}  // namespace
}  // namespace verbena::soft

int main(int argc, char** argv) {
  using verbena::soft::TestProcessLink;
  TestProcessLink::RunIfChild(
      argc, argv,
      {{"echo", verbena::soft::EchoChild},
       {"echo, both orders", verbena::soft::BothOrdersChild},
       {"leaving", verbena::soft::LeavingChild},
       {"meeting", verbena::soft::MeetingChild},
       {"resetting", verbena::soft::ResettingChild},
       {"silent",
        [](TestProcessLink& link) {
          return verbena::soft::SilentChild(link, true);
        }},
       {"never ready", [](TestProcessLink& link) {
          return verbena::soft::SilentChild(link, false);
        }}});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
