#include "transport/soft/queues/completion_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

TestEndOptions WithChannel() {
  TestEndOptions options;
  options.with_channel = true;
  return options;
}

// a sends to b, whose completion queue has a channel.
class CompletionEventTest : public testing::Test {
 protected:
  CompletionEventTest() {
    ConnectByHand(a, b);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(b.Receive(i, 0, 64), 0);
  }

  void Arm(int solicited_only = 0) {
    EXPECT_EQ(ibv_req_notify_cq(b.cq, solicited_only), 0);
  }

  // Whether an event comes within `timeout_ms`; takes and acknowledges it.
  bool Event(int timeout_ms) {
    pollfd wait = {b.channel->fd, POLLIN, 0};
    if (poll(&wait, 1, timeout_ms) != 1) return false;
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    EXPECT_EQ(b.verbs.get_cq_event(b.channel, &cq, &cq_context), 0);
    EXPECT_EQ(cq, b.cq);
    EXPECT_EQ(cq_context, &b);
    b.verbs.ack_cq_events(cq, 1);
    return true;
  }
  bool EventComes() { return Event(10'000); }
  bool NoEvent() { return !Event(20); }

  TestEnd a;
  TestEnd b{WithChannel()};
};

TEST_F(CompletionEventTest, AProgramWithoutAChannelMayAcknowledgeNoEvents) {
  a.verbs.ack_cq_events(a.cq, 0);
  EXPECT_EQ(a.cq->channel, nullptr);
}

TEST_F(CompletionEventTest, NothingComesWithoutArming) {
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  b.Wait(&a);
  EXPECT_TRUE(NoEvent());
}

TEST_F(CompletionEventTest, AnArmedQueueRaisesOneEventWithoutAnyPolling) {
  Arm();
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  EXPECT_TRUE(EventComes());
  EXPECT_TRUE(NoEvent());
  b.Wait(&a);
  b.Wait(&a);
}

TEST_F(CompletionEventTest, ACompletionThatWaitsAlreadyRaisesNoEvent) {
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  b.Wait(&a);
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  a.Wait(&b);
  a.Wait(&b);  // Both acknowledged: the second completion is in b's queue.
  Arm();
  EXPECT_TRUE(NoEvent());
  ibv_wc completion;
  EXPECT_TRUE(b.PollOnce(completion)) << "which is why one polls after arming";
}

TEST_F(CompletionEventTest, ManyArmAndSleepRoundsLoseNothing) {
  for (int i = 0; i < 500; ++i) {
    Arm();
    ASSERT_EQ(a.Send(i, 0, 8), 0);
    ASSERT_TRUE(EventComes());
    ASSERT_EQ(b.Wait(&a).status, IBV_WC_SUCCESS);
    ASSERT_EQ(b.Receive(i, 0, 64), 0);
    ASSERT_EQ(a.Wait(&b).status, IBV_WC_SUCCESS);
  }
}

TEST_F(CompletionEventTest, AnEventStillComesAfterBusyPolling) {
  b.StaysQuiet(&a, 1000);  // Wakes it up.
  Arm();
  b.StaysQuiet(&a, 1000);  // Arming holds, whatever is polled.
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_TRUE(EventComes());
}

TEST_F(CompletionEventTest, ASolicitedArmIgnoresOtherCompletions) {
  Arm(1);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_TRUE(NoEvent());
  ASSERT_EQ(a.Send(2, 0, 8, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED), 0);
  EXPECT_TRUE(EventComes());
}

TEST_F(CompletionEventTest, AnErrorWakesASolicitedArm) {
  Arm(1);
  ASSERT_EQ(b.ToError(), 0);
  EXPECT_TRUE(EventComes());
}

TEST_F(CompletionEventTest, ASendCompletionWakesItsSender) {
  TestEnd c(WithChannel());
  TestEnd d;
  ConnectByHand(c, d);
  ASSERT_EQ(d.Receive(1, 0, 8), 0);
  ASSERT_EQ(ibv_req_notify_cq(c.cq, 0), 0);
  ASSERT_EQ(c.Send(1, 0, 8), 0);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  ASSERT_EQ(c.verbs.get_cq_event(c.channel, &cq, &cq_context), 0);
  c.verbs.ack_cq_events(cq, 1);
  ibv_wc completion;
  ASSERT_TRUE(c.PollOnce(completion));
  EXPECT_EQ(completion.opcode, IBV_WC_SEND);
}

TEST_F(CompletionEventTest, ANonBlockingChannelAnswersEagain) {
  ASSERT_EQ(fcntl(b.channel->fd, F_SETFL, O_NONBLOCK), 0);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  EXPECT_EQ(b.verbs.get_cq_event(b.channel, &cq, &cq_context), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(CompletionQueueTest, DestroyingWaitsForEventsToBeAcknowledged) {
  auto a = std::make_unique<TestEnd>();
  auto b = std::make_unique<TestEnd>(WithChannel());
  ConnectByHand(*a, *b);
  ASSERT_EQ(b->Receive(1, 0, 8), 0);
  ASSERT_EQ(ibv_req_notify_cq(b->cq, 0), 0);
  ASSERT_EQ(a->Send(1, 0, 8), 0);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  ASSERT_EQ(b->verbs.get_cq_event(b->channel, &cq, &cq_context), 0);
  std::atomic<bool> acknowledging{false};
  const transport::VerbsOps verbs = b->verbs;
  std::thread acknowledger([&] {
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    acknowledging = true;
    verbs.ack_cq_events(cq, 1);
  });
  b.reset();  // Destroys the queue.
  EXPECT_TRUE(acknowledging);
  acknowledger.join();
}

TEST(CompletionQueueTest, AnUntakenEventGoesWithItsQueue) {
  auto b = std::make_unique<TestEnd>(WithChannel());
  auto a = std::make_unique<TestEnd>();
  ConnectByHand(*a, *b);
  ASSERT_EQ(b->Receive(1, 0, 8), 0);
  ASSERT_EQ(ibv_req_notify_cq(b->cq, 0), 0);
  ASSERT_EQ(b->ToError(), 0);
  b.reset();
}

TEST(CompletionQueueTest, AnOverrunFailsTheQueueAndItsQueuePairs) {
  TestEndOptions tiny;
  tiny.completions = 2;
  TestEnd a;
  TestEnd b(tiny);
  ConnectByHand(a, b);
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(b.Receive(i, 0, 8), 0);
    ASSERT_EQ(a.Send(i, 0, 8), 0);
  }
  while (b.State() != IBV_QPS_ERR) b.RunProtocol();
  ibv_async_event event;
  ASSERT_EQ(b.verbs.get_async_event(b.context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, b.cq);
  b.verbs.ack_async_event(&event);
  ibv_wc completions[4];
  EXPECT_EQ(ibv_poll_cq(b.cq, 4, completions), 2);
  EXPECT_EQ(completions[1].wr_id, 1u);
  EXPECT_LT(ibv_poll_cq(b.cq, 4, completions), 0);
}

TEST(CompletionQueueTest, AnOverrunFailsAQueuePairThatIsOnlyPolled) {
  TestEndOptions tiny;
  tiny.completions = 2;
  TestEnd a;
  TestEnd b(tiny);
  TestEnd silent;
  ibv_qp* const busy = b.qp;
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = b.cq;
  attributes.qp_type = IBV_QPT_RC;
  ibv_qp* const polled = b.qp = b.verbs.create_qp(b.pd, &attributes);
  ConnectByHand(silent, b);
  b.qp = busy;
  ConnectByHand(a, b);
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(b.Receive(i, 0, 8), 0);
    ASSERT_EQ(a.Send(i, 0, 8), 0);
  }
  while (b.State() != IBV_QPS_ERR) b.RunProtocol();
  b.qp = polled;
  while (b.State() != IBV_QPS_ERR) b.RunProtocol();
  b.verbs.destroy_qp(polled);
  b.qp = busy;
  ibv_async_event event;
  ASSERT_EQ(b.verbs.get_async_event(b.context, &event), 0);
  b.verbs.ack_async_event(&event);
}

TEST(CompletionQueueTest, ExactlyItsCapacityFits) {
  TestEndOptions four;
  four.completions = 4;
  TestEnd a;
  TestEnd b(four);
  ConnectByHand(a, b);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(b.Receive(i, 0, 8), 0);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(a.Send(i, 0, 8), 0);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(a.Wait(&b).wr_id, uint64_t(i));
  ibv_wc completions[8];
  EXPECT_EQ(ibv_poll_cq(b.cq, 8, completions), 4);
}

TEST(CompletionQueueTest, SeveralThreadsPollAndPostAtOnce) {
  constexpr int kMessages = 20'000;
  constexpr int kDepth = 64;
  TestEndOptions options;
  options.send_depth = options.receive_depth = kDepth;
  TestEnd a(options);
  TestEnd b(options);
  ConnectByHand(a, b);
  for (int i = 0; i < kDepth; ++i) ASSERT_EQ(b.Receive(i, 0, 8), 0);
  std::atomic<int> sent{0};
  std::atomic<int> received{0};
  const auto poll = [](TestEnd& end, std::atomic<int>& count, bool repost) {
    ibv_wc completion;
    while (count < kMessages) {
      if (!end.PollOnce(completion)) {
        std::this_thread::yield();
        continue;
      }
      EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
      if (repost) {
        EXPECT_EQ(end.Receive(completion.wr_id, 0, 8), 0);
      }
      ++count;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] { poll(a, sent, false); });
    threads.emplace_back([&] { poll(b, received, true); });
  }
  for (int posted = 0; posted < kMessages;) {
    if (a.Send(posted, 0, 8) == 0) {
      ++posted;
    } else {
      std::this_thread::yield();
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sent, kMessages);
  EXPECT_EQ(received, kMessages);
}

}  // namespace
}  // namespace verbena::soft
