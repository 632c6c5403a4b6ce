// Completion queues: what they hold, and when they raise an event.

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

EndOptions WithChannel() {
  EndOptions options;
  options.with_channel = true;
  return options;
}

class CompletionQueuesTest : public testing::Test {
 protected:
  CompletionQueuesTest() : a(), b(WithChannel()) { Connect(a, b); }

  // Sends one message from a into a receive of b.
  void SendOne(unsigned int flags = IBV_SEND_SIGNALED) {
    ASSERT_EQ(b.Receive(9, 0, 64), 0);
    ASSERT_EQ(a.Send(1, 0, 8, flags), 0);
    ASSERT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  }

  void ExpectNoEvent() { EXPECT_FALSE(b.ChannelIsReadable(false)); }

  End a;
  End b;
};

TEST_F(CompletionQueuesTest, AQueueHasAtLeastTheDepthThatWasAskedFor) {
  EXPECT_GE(a.cq->cqe, a.options.completions);
}

TEST_F(CompletionQueuesTest, AQueueOfNothingOrBeyondTheLimitIsRefused) {
  ibv_device_attr device = {};
  ASSERT_EQ(Verbs().query_device(a.context, &device), 0);
  EXPECT_EQ(Verbs().create_cq(a.context, 0, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(
      Verbs().create_cq(a.context, device.max_cqe + 1, nullptr, nullptr, 0),
      nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(Verbs().create_cq(a.context, 1, nullptr, nullptr,
                              a.context->num_comp_vectors),
            nullptr);
}

TEST(CompletionQueueDepthTest, AsManyFitAsItSays) {
  EndOptions options;
  options.completions = 1;
  options.send_depth = 64;
  End small(options);
  End peer;
  Connect(small, peer);
  const int depth = small.cq->cqe;
  ASSERT_LE(depth, 64);
  for (int i = 0; i < depth; ++i) {
    ASSERT_EQ(small.Write(i, 0, 8, peer.Address(0), peer.mr->rkey), 0);
  }
  for (int i = 0; i < depth; ++i) {
    EXPECT_EQ(small.Outcome(i), IBV_WC_SUCCESS);
  }
  EXPECT_TRUE(small.HasNoAsyncEvent());
}

TEST_F(CompletionQueuesTest, AProgramWithoutAChannelMayAcknowledgeNoEvents) {
  EXPECT_EQ(a.cq->channel, nullptr);
  Verbs().ack_cq_events(a.cq, 0);
}

TEST_F(CompletionQueuesTest, AQueueThatAQueuePairUsesIsBusy) {
  EXPECT_EQ(Verbs().destroy_cq(a.cq), EBUSY);
}

TEST_F(CompletionQueuesTest, AChannelThatAQueueUsesIsBusy) {
  EXPECT_EQ(Verbs().destroy_comp_channel(b.channel), EBUSY);
}

TEST_F(CompletionQueuesTest, AnArmedQueueRaisesOneEvent) {
  ASSERT_EQ(ibv_req_notify_cq(b.cq, 0), 0);
  SendOne();
  b.TakeCompletionEvent();
  SendOne();
  ExpectNoEvent();  // The queue was armed for one event.
}

TEST_F(CompletionQueuesTest, AQueueThatIsNotArmedRaisesNone) {
  SendOne();
  ExpectNoEvent();
}

TEST_F(CompletionQueuesTest, WhatCameBeforeArmingRaisesNoEvent) {
  SendOne();
  b.Wait();
  SendOne();
  ExpectNoEvent();
  ASSERT_EQ(ibv_req_notify_cq(b.cq, 0), 0);
  ExpectNoEvent();
  EXPECT_EQ(b.Outcome(9), IBV_WC_SUCCESS);  // So the user polls once more.
}

TEST_F(CompletionQueuesTest, ASolicitedArmIgnoresOtherMessages) {
  ASSERT_EQ(ibv_req_notify_cq(b.cq, 1), 0);
  SendOne();
  ExpectNoEvent();
  SendOne(IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
  b.TakeCompletionEvent();
}

TEST_F(CompletionQueuesTest, ASolicitedArmTakesAFlush) {
  ASSERT_EQ(b.Receive(9, 0, 64), 0);
  ASSERT_EQ(ibv_req_notify_cq(b.cq, 1), 0);
  ASSERT_EQ(b.To(IBV_QPS_ERR), 0);
  b.TakeCompletionEvent();
  EXPECT_EQ(b.Outcome(9), IBV_WC_WR_FLUSH_ERR);
}

TEST_F(CompletionQueuesTest, ManyRoundsOfArmingAndSleepingLoseNothing) {
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(b.cq, 0), 0);
    ASSERT_EQ(b.Receive(9, 0, 64), 0);
    ASSERT_EQ(a.Send(1, 0, 8), 0);
    b.TakeCompletionEvent();
    ASSERT_EQ(b.Outcome(9), IBV_WC_SUCCESS);
    ASSERT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  }
}

TEST_F(CompletionQueuesTest, ArmingHoldsWhateverIsPolledMeanwhile) {
  EXPECT_TRUE(b.StaysQuiet());
  ASSERT_EQ(ibv_req_notify_cq(b.cq, 0), 0);
  EXPECT_TRUE(b.StaysQuiet());
  SendOne();
  b.TakeCompletionEvent();
}

TEST_F(CompletionQueuesTest, WhatIsSentRaisesAnEventAtItsSenderToo) {
  ASSERT_EQ(a.Receive(9, 0, 64), 0);
  ASSERT_EQ(ibv_req_notify_cq(b.cq, 0), 0);
  ASSERT_EQ(b.Send(1, 0, 8), 0);
  b.TakeCompletionEvent();
  EXPECT_EQ(b.Wait().opcode, IBV_WC_SEND);
}

TEST_F(CompletionQueuesTest, AnEventThatNobodyTakesGoesWithItsQueue) {
  ASSERT_EQ(b.Receive(9, 0, 64), 0);
  ASSERT_EQ(ibv_req_notify_cq(b.cq, 0), 0);
  ASSERT_EQ(b.To(IBV_QPS_ERR), 0);
  EXPECT_TRUE(b.ChannelIsReadable(true));
}

TEST_F(CompletionQueuesTest, AnUnsignalledRequestRaisesNoEventAtItsSender) {
  ASSERT_EQ(a.Receive(9, 0, 64), 0);
  ASSERT_EQ(ibv_req_notify_cq(b.cq, 0), 0);
  ASSERT_EQ(b.Send(1, 0, 8, 0), 0);
  EXPECT_EQ(a.Outcome(9), IBV_WC_SUCCESS);
  ExpectNoEvent();
}

TEST_F(CompletionQueuesTest, ANonblockingChannelSaysThatThereIsNothing) {
  fcntl(b.channel->fd, F_SETFL, fcntl(b.channel->fd, F_GETFL) | O_NONBLOCK);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  errno = 0;
  EXPECT_EQ(Verbs().get_cq_event(b.channel, &cq, &cq_context), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(CompletionQueuesTest, DestroyingWaitsForEventsToBeAcknowledged) {
  ibv_comp_channel* const channel = Verbs().create_comp_channel(a.context);
  ibv_cq* cq = Verbs().create_cq(a.context, 8, nullptr, channel, 0);
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = cq;
  attributes.cap = {4, 4, 1, 1, 0};
  attributes.qp_type = IBV_QPT_RC;
  ibv_qp* const own = a.qp;
  a.qp = Verbs().create_qp(a.pd, &attributes);
  ASSERT_NE(a.qp, nullptr);
  a.BringTo(IBV_QPS_INIT);
  ASSERT_EQ(a.Receive(1, 0, 64), 0);
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  ASSERT_EQ(a.To(IBV_QPS_ERR), 0);
  ibv_cq* of_event = nullptr;
  void* cq_context = nullptr;
  ASSERT_EQ(Verbs().get_cq_event(channel, &of_event, &cq_context), 0);
  ASSERT_EQ(Verbs().destroy_qp(a.qp), 0);
  a.qp = own;

  std::atomic<bool> acknowledged = false;
  bool destroyed_after = false;
  std::thread destroyer([&] {
    EXPECT_EQ(Verbs().destroy_cq(cq), 0);
    destroyed_after = acknowledged;
  });
  EXPECT_TRUE(a.StaysQuiet());  // Time enough for the other thread.
  acknowledged = true;
  Verbs().ack_cq_events(of_event, 1);
  destroyer.join();
  EXPECT_TRUE(destroyed_after);
  EXPECT_EQ(Verbs().destroy_comp_channel(channel), 0);
}

TEST_F(CompletionQueuesTest, SeveralCompletionsComeInOrder) {
  for (int i = 0; i < 4; ++i) ASSERT_EQ(b.Receive(10 + i, 0, 64), 0);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(a.Send(i, 0, 8), 0);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(a.Outcome(i), IBV_WC_SUCCESS);
  for (unsigned int i = 0; i < 4; ++i) {
    const ibv_wc completion = b.Wait();
    EXPECT_EQ(completion.wr_id, 10 + i);
    EXPECT_EQ(completion.qp_num, b.qp->qp_num);
  }
}

TEST(CompletionQueueThreadsTest, SeveralPollAndPostAtOnce) {
  constexpr int kMessages = 10'000;
  constexpr int kDepth = 64;
  EndOptions options;
  options.send_depth = options.receive_depth = kDepth;
  options.completions = 2 * kDepth;
  End a(options);
  End b(options);
  Connect(a, b);
  for (int i = 0; i < kDepth; ++i) ASSERT_EQ(b.Receive(i, 0, 8), 0);
  std::atomic<int> sent{0};
  std::atomic<int> received{0};
  const auto poll = [](End& end, std::atomic<int>& count, bool repost) {
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
    if (posted - sent < kDepth && a.Send(posted, 0, 8) == 0) {
      ++posted;
    } else {
      std::this_thread::yield();
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sent, kMessages);
  EXPECT_EQ(received, kMessages);
}

TEST(CompletionQueueOverrunTest, AnOverrunIsAnAsynchronousError) {
  EndOptions small;
  small.completions = 1;
  small.send_depth = small.receive_depth = 64;
  End a(small);
  End b;
  // Some devices round the depth up, so as many as surely do not fit.
  const int count = a.cq->cqe + 1;
  ASSERT_LE(count, 64);
  a.BringTo(IBV_QPS_INIT);
  for (int i = 0; i < count; ++i) ASSERT_EQ(a.Receive(9, 0, 64), 0);
  ASSERT_EQ(a.To(IBV_QPS_ERR), 0);
  EXPECT_EQ(a.NextAsyncEvent(), IBV_EVENT_CQ_ERR);
}

}  // namespace
}  // namespace verbena::conformance
