// Two processes over one link: that it works between address spaces, and what a
// survivor sees when the other is killed.

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <string>

#include "transport/soft/connected/test_process_link.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

constexpr size_t kBulk = 3 << 20;

TestEndOptions Options() {
  TestEndOptions options;
  options.memory_bytes = 16 << 20;
  options.receive_depth = 64;
  options.completions = 1024;
  options.with_channel = true;
  options.timeout = 20;  // Four seconds: the child may be slow to get ready.
  return options;
}

std::string Pattern(size_t length, char seed) {
  std::string text(length, seed);
  for (size_t i = 0; i < length; i += 7) text[i] = static_cast<char>(i >> 3);
  return text;
}

void PostReceives(TestEnd& end) {
  for (int i = 0; i < 64; ++i) EXPECT_EQ(end.Receive(i, 0, 4096), 0);
}

// Blocks on the completion channel until there is a completion, or for ten
// seconds: then the status of the result is IBV_WC_GENERAL_ERR.
ibv_wc SleepUntilCompletion(TestEnd& end) {
  ibv_wc completion;
  for (;;) {
    if (end.PollOnce(completion)) return completion;
    EXPECT_EQ(ibv_req_notify_cq(end.cq, 0), 0);
    if (end.PollOnce(completion)) return completion;
    pollfd wait = {end.channel->fd, POLLIN, 0};
    if (poll(&wait, 1, 10'000) != 1) {
      completion.status = IBV_WC_GENERAL_ERR;
      return completion;
    }
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    EXPECT_EQ(end.verbs.get_cq_event(end.channel, &cq, &cq_context), 0);
    end.verbs.ack_cq_events(cq, 1);
  }
}

// Echoes messages until an empty one; polls, or sleeps on the channel.
int EchoUntilEmpty(TestEnd& end, bool sleep) {
  PostReceives(end);
  for (;;) {
    const ibv_wc completion = sleep ? SleepUntilCompletion(end) : end.Wait();
    if (completion.status != IBV_WC_SUCCESS) return 1;
    if (completion.opcode != IBV_WC_RECV) continue;
    if (completion.byte_len == 0) return 0;
    end.Receive(completion.wr_id, 0, 4096);
    end.Send(1, 0, completion.byte_len);
  }
}

int Echo(TestProcessLink& link, bool sleep) {
  TestEnd end(Options());
  link.Connect(end);
  const int result = EchoUntilEmpty(end, sleep);
  link.Disconnect();
  return result;
}

// Polls, or polls a little and then sleeps, or sleeps, as `random` has it.
ibv_wc WaitSomehow(TestEnd& end, std::mt19937& random) {
  const uint32_t polls = random() % 3 == 0 ? 0 : random() % 300;
  ibv_wc completion;
  for (uint32_t i = 0; i < polls; ++i) {
    if (end.PollOnce(completion)) return completion;
  }
  return SleepUntilCompletion(end);
}

constexpr size_t kMixedBytesMax = 300'000;

// Echoes each message, which is a size, by a message of that size.
int MixedEcho(TestProcessLink& link) {
  TestEnd end(Options());
  link.Connect(end);
  PostReceives(end);
  std::mt19937 random(2);
  for (;;) {
    const ibv_wc completion = WaitSomehow(end, random);
    if (completion.status != IBV_WC_SUCCESS) break;
    if (completion.opcode != IBV_WC_RECV) continue;
    if (completion.byte_len == 0) break;
    end.Receive(completion.wr_id, 0, 4096);
    end.Send(1, kBulk, random() % kMixedBytesMax,
             random() % 2 == 0 ? 0 : IBV_SEND_SIGNALED);
    end.Send(1, kBulk, 0);
  }
  link.Disconnect();
  return 0;
}

// Sits there without ever polling: the engine does everything.
int Sit(TestProcessLink& link) {
  TestEnd end(Options());
  end.Fill(0, Pattern(kBulk, 's'));
  link.Connect(end);
  poll(nullptr, 0, -1);
  return 1;
}

TEST(ProcessLinkTest, MessagesGoBackAndForth) {
  TestEnd end(Options());
  TestProcessLink link = TestProcessLink::Start("polling echo");
  link.Connect(end);
  PostReceives(end);
  for (int i = 0; i < 100; ++i) {
    const std::string text = Pattern(1 + i * 40, 'x');
    end.Fill(8192, text);
    ASSERT_EQ(end.Send(100, 8192, text.size()), 0);
    bool sent = false;
    bool received = false;
    while (!sent || !received) {
      const ibv_wc completion = end.Wait();
      ASSERT_EQ(completion.status, IBV_WC_SUCCESS);
      (completion.opcode == IBV_WC_RECV ? received : sent) = true;
    }
    EXPECT_TRUE(end.Text(0, text.size()) == text);
    ASSERT_EQ(end.Receive(0, 0, 4096), 0);
  }
  ASSERT_EQ(end.Send(1, 0, 0), 0);
  EXPECT_EQ(end.Wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(link.WaitExit(), 0);
}

TEST(ProcessLinkTest, ASleepingPeerIsWokenForEveryMessage) {
  TestEnd end(Options());
  TestProcessLink link = TestProcessLink::Start("sleeping echo");
  link.Connect(end);
  PostReceives(end);
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(end.Send(1, 0, 8), 0);
    bool sent = false;
    bool received = false;
    while (!sent || !received) {
      const ibv_wc completion = SleepUntilCompletion(end);
      ASSERT_EQ(completion.status, IBV_WC_SUCCESS);
      (completion.opcode == IBV_WC_RECV ? received : sent) = true;
    }
    ASSERT_EQ(end.Receive(0, 0, 4096), 0);
  }
  ASSERT_EQ(end.Send(1, 0, 0), 0);
  EXPECT_EQ(end.Wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(link.WaitExit(), 0);
}

TEST(ProcessLinkTest, AnyMixtureOfWorkPollingAndSleepingMovesOn) {
  constexpr int kRounds = 400;
  TestEnd end(Options());
  TestProcessLink link = TestProcessLink::Start("mixed echo");
  const TestGreeting peer = link.Connect(end);
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(end.Receive(i, 0, kMixedBytesMax), 0);
  }
  std::mt19937 random(1);
  for (int round = 0; round < kRounds; ++round) {
    const int operations = 1 + random() % 4;
    for (int i = 0; i < operations; ++i) {
      const size_t length = random() % kMixedBytesMax;
      const uint64_t remote = peer.address + 3 * kBulk;
      ASSERT_EQ(random() % 2 == 0
                    ? end.Read(5, kBulk, length, remote, peer.rkey)
                    : end.Write(5, kBulk, length, remote, peer.rkey),
                0);
    }
    ASSERT_EQ(end.Send(6, 0, 8), 0);
    int sends = operations + 1;
    int receives = 2;
    while (sends + receives > 0) {
      const ibv_wc completion = WaitSomehow(end, random);
      ASSERT_EQ(completion.status, IBV_WC_SUCCESS) << "round " << round;
      if (completion.opcode == IBV_WC_RECV) {
        --receives;
        ASSERT_EQ(end.Receive(0, 0, kMixedBytesMax), 0);
      } else {
        --sends;
      }
    }
  }
  ASSERT_EQ(end.Send(1, 0, 0), 0);
  EXPECT_EQ(end.Wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(link.WaitExit(), 0);
}

TEST(ProcessLinkTest, OneSidedOperationsNeedNobodyToPollAtTheOtherEnd) {
  TestEnd end(Options());
  TestProcessLink link = TestProcessLink::Start("sit");
  const TestGreeting peer = link.Connect(end);
  ASSERT_EQ(end.Read(1, 0, kBulk, peer.address, peer.rkey), 0);
  ASSERT_EQ(end.Wait().status, IBV_WC_SUCCESS);
  EXPECT_TRUE(end.Text(0, kBulk) == Pattern(kBulk, 's'));
  const std::string text = Pattern(kBulk, 'w');
  end.Fill(kBulk, text);
  ASSERT_EQ(end.Write(2, kBulk, kBulk, peer.address + 2 * kBulk, peer.rkey, 0),
            0);
  ASSERT_EQ(end.Read(3, 2 * kBulk, kBulk, peer.address + 2 * kBulk, peer.rkey),
            0);
  ASSERT_EQ(end.Wait().status, IBV_WC_SUCCESS);
  EXPECT_TRUE(end.Text(2 * kBulk, kBulk) == text);
}

TEST(ProcessLinkTest, AKilledPeerIsNoticedAtOnce) {
  TestEnd end(Options());
  TestProcessLink link = TestProcessLink::Start("sit");
  link.Connect(end);
  ASSERT_EQ(end.Receive(1, 0, 8), 0);
  ASSERT_EQ(end.Send(2, 0, 8), 0);  // The child has no receive posted.
  EXPECT_TRUE(end.StaysQuiet(nullptr, 1000));
  const auto start = std::chrono::steady_clock::now();
  link.Kill();
  const ibv_wc first = end.Wait();
  EXPECT_EQ(first.wr_id, 2u);
  EXPECT_EQ(first.status, IBV_WC_RETRY_EXC_ERR);
  const ibv_wc second = end.Wait();
  EXPECT_EQ(second.wr_id, 1u);
  EXPECT_EQ(second.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_EQ(end.State(), IBV_QPS_ERR);
}

TEST(ProcessLinkTest, AKilledPeerWakesASleeper) {
  TestEnd end(Options());
  TestProcessLink link = TestProcessLink::Start("sit");
  link.Connect(end);
  ASSERT_EQ(end.Receive(1, 0, 8), 0);
  ASSERT_EQ(ibv_req_notify_cq(end.cq, 0), 0);
  link.Kill();
  EXPECT_EQ(SleepUntilCompletion(end).status, IBV_WC_WR_FLUSH_ERR);
}

// Sends a message and exits at once. The parent receives the message though its
// peer is gone.
int SendAndDie(TestProcessLink& link) {
  TestEnd end(Options());
  end.Fill(0, "last words");
  link.Connect(end);
  end.Send(1, 0, 10);
  _exit(7);
}

TEST(ProcessLinkTest, TheLastWordsOfAPeerAreDelivered) {
  TestEnd end(Options());
  TestProcessLink link = TestProcessLink::Start("send and die");
  ASSERT_EQ(end.To(IBV_QPS_INIT), 0);
  ASSERT_EQ(end.Receive(1, 0, 64), 0);
  link.Connect(end);
  EXPECT_EQ(end.Wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(end.Text(0, 10), "last words");
  EXPECT_EQ(link.WaitExit(), 7);
}

}  // namespace
}  // namespace verbena::soft

int main(int argc, char** argv) {
  using verbena::soft::TestProcessLink;
  TestProcessLink::RunIfChild(
      argc, argv,
      {{"polling echo",
        [](TestProcessLink& link) { return verbena::soft::Echo(link, false); }},
       {"sleeping echo",
        [](TestProcessLink& link) { return verbena::soft::Echo(link, true); }},
       {"mixed echo", verbena::soft::MixedEcho},
       {"sit", verbena::soft::Sit},
       {"send and die", verbena::soft::SendAndDie}});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
