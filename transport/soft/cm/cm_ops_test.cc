#include "transport/soft/cm/cm_ops.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

namespace verbena::soft {
namespace {

TEST(SoftCmOpsTest, HasNoNullEntry) {
  const transport::CmOps ops = SoftCmOps();
  void* entries[sizeof(ops) / sizeof(void*)];
  std::memcpy(entries, &ops, sizeof(ops));
  for (const void* entry : entries) EXPECT_NE(entry, nullptr);
}

TEST(SoftCmOpsTest, AnswersAsLibrdmacmDoes) {
  const transport::CmOps ops = SoftCmOps();
  rdma_event_channel* channel = ops.create_event_channel();
  ASSERT_NE(channel, nullptr);
  rdma_cm_id* id = nullptr;
  int context = 0;
  ASSERT_EQ(ops.create_id(channel, &id, &context, RDMA_PS_TCP), 0);
  EXPECT_EQ(id->channel, channel);
  EXPECT_EQ(id->context, &context);
  EXPECT_EQ(id->verbs, nullptr);
  EXPECT_EQ(ops.get_src_port(id), 0);
  errno = 0;
  EXPECT_EQ(ops.resolve_route(id, 1), -1);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(ops.create_id(nullptr, &id, nullptr, RDMA_PS_TCP), -1);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(ops.bind_addr(id, nullptr), -1);
  EXPECT_EQ(errno, EAFNOSUPPORT);
  ops.destroy_qp(id);  // There is none.
  EXPECT_EQ(ops.destroy_id(id), 0);
  ops.destroy_event_channel(channel);
}

}  // namespace
}  // namespace verbena::soft
