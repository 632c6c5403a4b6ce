// Timeouts of seconds take no time, and are the same in every run.

#include "transport/soft/simulation.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>

#include "transport/base/unique_fd.h"
#include "transport/soft/base/fd_message.h"
#include "transport/soft/link/link.h"
#include "transport/soft/link/link_offer.h"
#include "transport/soft/link/number_blocks.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

class SimulationTest : public testing::Test {
 protected:
  // The status of the next completion at `end`, and when it came; or nothing.
  struct Seen {
    bool came = false;
    ibv_wc completion = {};
    nanoseconds after = {};
  };
  Seen Await(TestEnd& end, nanoseconds longest) {
    Seen seen;
    const Simulation::TimePoint start = simulation_.Now();
    seen.came = simulation_.RunUntil(
        [&] { return end.PollOnce(seen.completion); }, longest);
    seen.after = simulation_.Now() - start;
    return seen;
  }

  Simulation& simulation_ = Simulation::Begin();
};

TEST_F(SimulationTest, TimePassesWhenItIsToldTo) {
  const Simulation::TimePoint start = simulation_.Now();
  simulation_.RunFor(seconds(100));
  EXPECT_EQ(simulation_.Now(), start + seconds(100));
}

TEST_F(SimulationTest, WhatIsSentArrives) {
  TestEnd a;
  TestEnd b;
  ConnectManually(a, b);
  ASSERT_EQ(b.Receive(1, 0, 64), 0);
  ASSERT_EQ(a.Send(2, 0, 64), 0);
  EXPECT_EQ(Await(b, seconds(1)).completion.wr_id, 1u);
  EXPECT_EQ(Await(a, seconds(1)).completion.wr_id, 2u);
}

TEST_F(SimulationTest, APeerThatIsNotThereIsGivenUpWhenTheUserSaid) {
  TestEndOptions options;
  options.timeout = 18;  // 4.096 us * 2^18 = 1.07 s, four times.
  options.retry_count = 3;
  TestEnd a(options);
  TestEnd b;
  ConnectManually(a, b);
  ASSERT_EQ(b.To(IBV_QPS_RESET), 0);
  const auto started = std::chrono::steady_clock::now();
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  const Seen seen = Await(a, seconds(10));
  ASSERT_TRUE(seen.came);
  EXPECT_EQ(seen.completion.status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_GE(seen.after, nanoseconds(4 * (int64_t{4096} << 18)));
  EXPECT_LT(seen.after,
            nanoseconds(4 * (int64_t{4096} << 18)) + milliseconds(2));
  EXPECT_LT(std::chrono::steady_clock::now() - started, seconds(2));
}

TEST_F(SimulationTest, AReceiverThatIsNotReadyIsAskedAgainWhenItSaid) {
  TestEndOptions options;
  options.rnr_retry = 2;
  options.min_rnr_timer = 31;  // 491.52 ms.
  TestEnd a(options);
  TestEnd b(options);
  ConnectManually(a, b);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_FALSE(Await(a, milliseconds(2 * 491)).came);
  const Seen seen = Await(a, milliseconds(10));
  ASSERT_TRUE(seen.came);
  EXPECT_EQ(seen.completion.status, IBV_WC_RNR_RETRY_EXC_ERR);
}

// Each ring wakes the engine beside the program that spins. The engine's answer
// must not make the queue pair count the polls anew.
TEST_F(SimulationTest, AnEndThatSpinsAfterASleepIsSoonRungNoMore) {
  TestEndOptions options;
  options.with_channel = true;
  TestEnd a(options);
  TestEnd b;
  ConnectManually(a, b);
  ASSERT_EQ(ibv_req_notify_cq(a.cq, 0), 0);
  constexpr int kMessages = 300;
  constexpr int kPolls = 20;
  int rings = 0;
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_EQ(a.Receive(1, 0, 64), 0);
    ASSERT_EQ(b.Send(2, 0, 64), 0);
    // A single step only moves the clock. If there are more, the engine had
    // work to do.
    const Simulation::TimePoint later = simulation_.Now() + microseconds(10);
    int steps = 0;
    while (simulation_.Step(later)) ++steps;
    if (steps > 1) ++rings;
    ASSERT_EQ(a.Wait(&b).opcode, IBV_WC_RECV);
    if (i == 0) a.TakeCompletionEvent();
    ASSERT_EQ(b.Wait(&a).opcode, IBV_WC_SEND);
    EXPECT_TRUE(a.StaysQuiet(&b, kPolls));
  }
  EXPECT_GT(rings, 0) << "it never slept";
  EXPECT_LT(rings, 30);
}

TEST_F(SimulationTest, AnOfferThatNobodyTakesIsDroppedAfterAWhile) {
  TestEnd end;
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets),
            0);
  const base::UniqueFd own(sockets[0]);
  base::UniqueFd theirs(sockets[1]);
  const LinkMemory memory = *LinkMemory::Create();
  const base::UniqueFd sender(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  LinkOffer offer;
  offer.from = 1;
  offer.to = end.qp->qp_num;
  ASSERT_EQ(SendFdMessage(sender.get(), &offer, sizeof(offer),
                          {memory.fd(), theirs.get()},
                          NumberBlocks::SocketName(end.qp->qp_num)),
            0);
  theirs.Reset();
  pollfd descriptor = {.fd = own.get(), .events = 0, .revents = 0};
  simulation_.RunFor(std::chrono::minutes(9));
  EXPECT_EQ(::poll(&descriptor, 1, 0), 0);
  simulation_.RunFor(std::chrono::minutes(2));
  EXPECT_EQ(::poll(&descriptor, 1, 0), 1);
}

}  // namespace
}  // namespace verbena::soft
