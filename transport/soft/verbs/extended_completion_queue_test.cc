#include "transport/soft/verbs/extended_completion_queue.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>

#include "transport/soft/connected/queue_pair.h"
#include "transport/soft/test_end.h"
#include "transport/soft/verbs/device_attributes.h"

namespace verbena::soft {
namespace {

// A queue pair with an extended completion queue, connected to one without.
class ExtendedEnd {
 public:
  explicit ExtendedEnd(ibv_cq_init_attr_ex attributes) {
    attributes.cqe = 16;
    cq = ibv_create_cq_ex(end.context, &attributes);
    EXPECT_NE(cq, nullptr) << "errno " << errno;
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
    init.cap = {16, 16, 2, 2, 64};
    init.qp_type = IBV_QPT_RC;
    EXPECT_EQ(end.verbs.destroy_qp(end.qp), 0);
    end.qp = end.verbs.create_qp(end.pd, &init);
    ConnectByHand(end, peer);
  }
  ~ExtendedEnd() {
    EXPECT_EQ(end.verbs.destroy_qp(end.qp), 0);
    end.qp = nullptr;
    EXPECT_EQ(end.verbs.destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  }

  // Polls until there is a completion, the first or a further one.
  int Start() {
    ibv_poll_cq_attr attributes = {};
    return Await([&] { return ibv_start_poll(cq, &attributes); });
  }
  int Next() {
    return Await([&] { return ibv_next_poll(cq); });
  }

  TestEnd end;
  TestEnd peer;
  ibv_cq_ex* cq = nullptr;

 private:
  template <typename Poll>
  int Await(Poll poll) {
    for (int i = 0; i < 100000; ++i) {
      const int error = poll();
      if (error != ENOENT) return error;
      peer.RunProtocol();
    }
    return ENOENT;
  }
};

ibv_cq_init_attr_ex Wanting(uint64_t fields) {
  ibv_cq_init_attr_ex attributes = {};
  attributes.wc_flags = fields;
  return attributes;
}

TEST(ExtendedCompletionQueueTest, ACompletionIsReadFieldByField) {
  ExtendedEnd pair(Wanting(IBV_WC_STANDARD_FLAGS));
  ASSERT_EQ(pair.end.Receive(77, 0, 64), 0);
  ibv_sge entry = pair.peer.Entry(0, 5);
  ibv_send_wr request = {};
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.imm_data = 0x12345678;
  ASSERT_EQ(pair.peer.Post(request), 0);
  ASSERT_EQ(pair.Start(), 0);
  EXPECT_EQ(pair.cq->wr_id, 77u);
  EXPECT_EQ(pair.cq->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(pair.cq), IBV_WC_RECV);
  EXPECT_EQ(ibv_wc_read_byte_len(pair.cq), 5u);
  EXPECT_EQ(ibv_wc_read_wc_flags(pair.cq), unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(ibv_wc_read_imm_data(pair.cq), 0x12345678u);
  EXPECT_EQ(ibv_wc_read_qp_num(pair.cq), pair.end.qp->qp_num);
  EXPECT_EQ(ibv_wc_read_vendor_err(pair.cq), 0u);
  EXPECT_EQ(ibv_wc_read_src_qp(pair.cq), 0u);
  EXPECT_EQ(ibv_wc_read_slid(pair.cq), 0u);
  EXPECT_EQ(ibv_wc_read_sl(pair.cq), 0);
  EXPECT_EQ(ibv_wc_read_dlid_path_bits(pair.cq), 0);
  EXPECT_EQ(ibv_next_poll(pair.cq), ENOENT);
  ibv_end_poll(pair.cq);
}

TEST(ExtendedCompletionQueueTest, ABatchIsTakenOneByOne) {
  ExtendedEnd pair(Wanting(0));
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(pair.peer.Receive(0, 0, 64), 0);
    ASSERT_EQ(pair.end.Send(i, 0, 8), 0);
  }
  ASSERT_EQ(pair.Start(), 0);
  EXPECT_EQ(pair.cq->wr_id, 0u);
  for (uint64_t i = 1; i < 3; ++i) {
    ASSERT_EQ(pair.Next(), 0);
    EXPECT_EQ(pair.cq->wr_id, i);
  }
  EXPECT_EQ(ibv_next_poll(pair.cq), ENOENT);
  ibv_end_poll(pair.cq);
}

TEST(ExtendedCompletionQueueTest, TheOrdinaryPollTakesCompletionsToo) {
  ExtendedEnd pair(Wanting(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP));
  ASSERT_EQ(pair.peer.Receive(0, 0, 64), 0);
  ASSERT_EQ(pair.end.Send(5, 0, 8), 0);
  ibv_wc completion;
  while (ibv_poll_cq(ibv_cq_ex_to_cq(pair.cq), 1, &completion) == 0) {
    pair.peer.RunProtocol();
  }
  EXPECT_EQ(completion.wr_id, 5u);
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
}

TEST(ExtendedCompletionQueueTest, TimesAreWhenTheCompletionCame) {
  ExtendedEnd pair(Wanting(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                           IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK));
  uint64_t last = ClockNow();
  for (int i = 0; i < 20; ++i) {  // All round the queue.
    const uint64_t wall_before = WallclockNow();
    ASSERT_EQ(pair.peer.Receive(0, 0, 64), 0);
    ASSERT_EQ(pair.end.Send(i, 0, 8), 0);
    ASSERT_EQ(pair.Start(), 0);
    EXPECT_GE(ibv_wc_read_completion_ts(pair.cq), last);
    last = ibv_wc_read_completion_ts(pair.cq);
    EXPECT_LE(last, ClockNow());
    EXPECT_GE(ibv_wc_read_completion_wallclock_ns(pair.cq), wall_before);
    EXPECT_LE(ibv_wc_read_completion_wallclock_ns(pair.cq), WallclockNow());
    ibv_end_poll(pair.cq);
  }
}

TEST(ExtendedCompletionQueueTest, AnArmedQueueWithTimesRaisesItsEvent) {
  TestEndOptions options;
  options.with_channel = true;
  TestEnd end(options);
  TestEnd peer;
  ibv_cq_init_attr_ex attributes = Wanting(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP);
  attributes.cqe = 4;
  attributes.channel = end.channel;
  ibv_cq_ex* cq = ibv_create_cq_ex(end.context, &attributes);
  ASSERT_NE(cq, nullptr);
  CompletionQueue* queue = CompletionQueue::From(ibv_cq_ex_to_cq(cq));
  EXPECT_FALSE(queue->armed());
  ASSERT_EQ(ibv_req_notify_cq(ibv_cq_ex_to_cq(cq), 0), 0);
  EXPECT_TRUE(queue->armed());
  Completion completion = {};
  completion.qp = QueuePair::From(end.qp);
  completion.opcode = IBV_WC_RECV;
  queue->Push(completion);
  EXPECT_FALSE(queue->armed());
  ibv_cq* told = nullptr;
  void* context = nullptr;
  ASSERT_EQ(end.verbs.get_cq_event(end.channel, &told, &context), 0);
  EXPECT_EQ(told, ibv_cq_ex_to_cq(cq));
  end.verbs.ack_cq_events(told, 1);
  EXPECT_EQ(end.verbs.destroy_cq(told), 0);
}

TEST(ExtendedCompletionQueueTest, OverrunsCanBeIgnored) {
  ibv_cq_init_attr_ex attributes = Wanting(0);
  attributes.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  attributes.flags =
      IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN | IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  ExtendedEnd pair(attributes);
  CompletionQueue* queue = CompletionQueue::From(ibv_cq_ex_to_cq(pair.cq));
  for (uint64_t i = 0; i < 20; ++i) {
    Completion completion = {};
    completion.wr_id = i;
    completion.qp = QueuePair::From(pair.end.qp);
    completion.opcode = IBV_WC_RECV;
    queue->Push(completion);
  }
  EXPECT_FALSE(queue->failed());
  ASSERT_EQ(pair.Start(), 0);
  EXPECT_EQ(pair.cq->wr_id, 4u) << "the newest sixteen are there";
  ibv_end_poll(pair.cq);
}

int CreateError(TestEnd& end, ibv_cq_init_attr_ex attributes) {
  errno = 0;
  ibv_cq_ex* cq = ibv_create_cq_ex(end.context, &attributes);
  if (cq == nullptr) return errno;
  EXPECT_EQ(end.verbs.destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  return 0;
}

TEST(ExtendedCompletionQueueTest, WhatIsNotHonouredIsRefused) {
  TestEnd end;
  ibv_cq_init_attr_ex attributes = {};
  attributes.cqe = 1;
  EXPECT_EQ(CreateError(end, attributes), 0);
  for (const uint64_t field :
       {uint64_t{IBV_WC_EX_WITH_CVLAN}, uint64_t{IBV_WC_EX_WITH_FLOW_TAG},
        uint64_t{IBV_WC_EX_WITH_TM_INFO}, uint64_t{1} << 40}) {
    attributes.wc_flags = field;
    EXPECT_EQ(CreateError(end, attributes), EOPNOTSUPP);
  }
  attributes.wc_flags = 0;
  attributes.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  attributes.flags = 1 << 20;
  EXPECT_EQ(CreateError(end, attributes), EINVAL);
  attributes.comp_mask = 1 << 20;
  EXPECT_EQ(CreateError(end, attributes), EINVAL);
  attributes.comp_mask = 0;
  attributes.cqe = 0;
  EXPECT_EQ(CreateError(end, attributes), EINVAL);
  attributes.cqe = UINT32_MAX;
  EXPECT_EQ(CreateError(end, attributes), EINVAL);
}

}  // namespace
}  // namespace verbena::soft
