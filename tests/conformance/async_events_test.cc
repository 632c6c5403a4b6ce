// Asynchronous events of queue pairs. That of a completion queue which is too
// small is in completion_queues_test.cc, that of a limit in
// shared_receive_queues_test.cc.

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/conformance/differences.h"
#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

class AsyncEventsTest : public testing::Test {
 protected:
  void ExpectEvent(End& end, ibv_event_type type, Promise promise) {
    if (Keeps(promise)) {
      EXPECT_EQ(end.NextAsyncEvent(), type);
    } else {
      EXPECT_TRUE(end.HasNoAsyncEvent());
    }
  }

  End a;
  End b;
};

TEST_F(AsyncEventsTest, AMessageBeforeReadyToSendEstablishesTheConnection) {
  a.peer = &b;
  b.peer = &a;
  a.BringTo(IBV_QPS_RTS);
  b.BringTo(IBV_QPS_RTR);
  for (const bool first : {true, false}) {
    ASSERT_EQ(b.Receive(1, 0, 64), 0);
    ASSERT_EQ(a.Send(2, 0, 8), 0);
    EXPECT_EQ(b.Outcome(1), IBV_WC_SUCCESS);
    if (first) {
      ExpectEvent(b, IBV_EVENT_COMM_EST, Promise::kAnEarlyMessageIsAnEvent);
    }
  }
  EXPECT_TRUE(b.HasNoAsyncEvent()) << "once is enough";
}

TEST_F(AsyncEventsTest, AMessageToOneThatIsReadyIsNoEvent) {
  Connect(a, b);
  ASSERT_EQ(b.Receive(1, 0, 64), 0);
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  EXPECT_EQ(b.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_TRUE(b.HasNoAsyncEvent());
}

TEST_F(AsyncEventsTest, AnInvalidRequestIsAnEventOfTheResponder) {
  Connect(a, b);
  ibv_qp_attr attributes = {};
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ;
  ASSERT_EQ(Verbs().modify_qp(b.qp, &attributes, IBV_QP_ACCESS_FLAGS), 0);
  ASSERT_EQ(a.Write(1, 0, 8, b.Address(0), b.mr->rkey), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_REM_INV_REQ_ERR);
  ExpectEvent(b, IBV_EVENT_QP_REQ_ERR, Promise::kInvalidRequestIsAnEvent);
}

TEST_F(AsyncEventsTest, AnErrorOfTheRequesterIsACompletionAndNoEvent) {
  Connect(a, b);
  ASSERT_EQ(a.Write(1, 0, 8, b.Address(0), b.mr->rkey ^ 0x55), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_REM_ACCESS_ERR);
  EXPECT_TRUE(a.HasNoAsyncEvent());
}

TEST_F(AsyncEventsTest, AQueueThatOverflowsIsFatalToItsQueuePairs) {
  EndOptions options;
  options.completions = 1;
  options.send_depth = 64;
  End small(options);
  Connect(small, b);
  const int depth = small.cq->cqe;
  for (int i = 0; i <= depth; ++i) {
    ASSERT_EQ(small.Write(1, 0, 8, b.Address(0), b.mr->rkey), 0);
  }
  // Behind them all, though it needs no place.
  ASSERT_EQ(small.Read(2, 8, 8, b.Address(8), b.mr->rkey, 0), 0);
  EXPECT_EQ(small.NextAsyncEvent(), IBV_EVENT_CQ_ERR);
  ExpectEvent(small, IBV_EVENT_QP_FATAL, Promise::kOverflowIsFatalToQueuePairs);
}

TEST_F(AsyncEventsTest, AnUnsharedReceiveQueueHasNoLastReceive) {
  Connect(a, b);
  ASSERT_EQ(b.Receive(1, 0, 64), 0);
  ASSERT_EQ(b.To(IBV_QPS_ERR), 0);
  EXPECT_EQ(b.Outcome(1), IBV_WC_WR_FLUSH_ERR);
  EXPECT_TRUE(b.HasNoAsyncEvent());
}

TEST_F(AsyncEventsTest, ANonblockingContextSaysThatThereIsNone) {
  ASSERT_EQ(fcntl(a.context->async_fd, F_SETFL, O_NONBLOCK), 0);
  ibv_async_event event = {};
  EXPECT_EQ(Verbs().get_async_event(a.context, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

}  // namespace
}  // namespace verbena::conformance
