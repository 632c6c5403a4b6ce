#include "transport/verbs/shared_receive_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/verbs/fake_verbs.h"

namespace verbena::transport {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class SharedReceiveQueueTest : public testing::Test {
 protected:
  FakeVerbs verbs_;
  ProtectionDomain pd_ =
      *ProtectionDomain::Create(verbs_.table(), verbs_.context());
};

TEST_F(SharedReceiveQueueTest, HoldsReceivesOfOneElementEach) {
  ASSERT_TRUE(SharedReceiveQueue::Create(pd_, 33).ok());
  EXPECT_THAT(verbs_.calls, Contains("create_srq 33 1"));
}

TEST_F(SharedReceiveQueueTest, PostsAChainWithOneDoorbell) {
  SharedReceiveQueue queue = *SharedReceiveQueue::Create(pd_, 33);
  ibv_sge element = {.addr = 4096, .length = 64, .lkey = 5};
  ibv_recv_wr second = {
      .wr_id = 2, .next = nullptr, .sg_list = &element, .num_sge = 1};
  ibv_recv_wr first = {
      .wr_id = 1, .next = &second, .sg_list = &element, .num_sge = 1};
  ASSERT_TRUE(queue.PostReceive(&first).ok());
  ASSERT_EQ(verbs_.receives.size(), 2u);
  EXPECT_EQ(verbs_.receives[0].wr_id, 1u);
  EXPECT_EQ(verbs_.receives[1].wr_id, 2u);
  EXPECT_EQ(verbs_.receives[0].doorbell, verbs_.receives[1].doorbell);
}

TEST_F(SharedReceiveQueueTest, SaysWhyItRefuses) {
  SharedReceiveQueue queue = *SharedReceiveQueue::Create(pd_, 33);
  verbs_.post_error = ENOMEM;
  ibv_recv_wr receive = {};
  const absl::Status full = queue.PostReceive(&receive);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(full.message(), HasSubstr("post_srq_recv"));

  verbs_.make_error = EINVAL;
  EXPECT_THAT(SharedReceiveQueue::Create(pd_, 33).status().message(),
              HasSubstr("create_srq depth 33"));
}

}  // namespace
}  // namespace verbena::transport
