#include "transport/soft/queues/receive_queue.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace verbena::soft {
namespace {

TEST(ReceiveQueueTest, AFullQueueRefusesAndNamesTheRequest) {
  ReceiveQueue queue(3, 1);
  ibv_recv_wr requests[4] = {};
  for (int i = 0; i < 4; ++i) {
    requests[i].wr_id = i;
    requests[i].next = i < 3 ? &requests[i + 1] : nullptr;
  }
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(queue.Post(requests, &bad), ENOMEM);
  EXPECT_EQ(bad, &requests[3]);
  ReceiveRequest request;
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(queue.Take(request));
    EXPECT_EQ(request.wr_id, i);
  }
  EXPECT_FALSE(queue.Take(request));
}

TEST(ReceiveQueueTest, OneEntryTooManyIsRefused) {
  ReceiveQueue queue(3, 2);
  ibv_sge entries[3] = {};
  ibv_recv_wr request = {};
  request.sg_list = entries;
  ibv_recv_wr* bad = nullptr;
  request.num_sge = 2;
  EXPECT_EQ(queue.Post(&request, &bad), 0);
  request.num_sge = 3;
  EXPECT_EQ(queue.Post(&request, &bad), EINVAL);
  request.num_sge = -1;
  EXPECT_EQ(queue.Post(&request, &bad), EINVAL);
  EXPECT_EQ(queue.size(), 1u);
}

TEST(ReceiveQueueTest, ItGoesRoundWithItsEntries) {
  ReceiveQueue queue(3, 2);
  for (uint64_t i = 0; i < 20; ++i) {
    ibv_sge entries[2] = {{i, 1, 2}, {i + 1, 3, 4}};
    ibv_recv_wr posted = {};
    posted.wr_id = i;
    posted.sg_list = entries;
    posted.num_sge = 2;
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(queue.Post(&posted, &bad), 0);
    ReceiveRequest taken;
    ASSERT_TRUE(queue.Take(taken));
    EXPECT_EQ(taken.wr_id, i);
    ASSERT_EQ(taken.entry_count, 2);
    EXPECT_EQ(taken.entries[0].addr, i);
    EXPECT_EQ(taken.entries[1].lkey, 4u);
  }
}

}  // namespace
}  // namespace verbena::soft
