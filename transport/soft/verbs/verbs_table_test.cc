// Creating and destroying: limits, semantics and the order in which objects go.

#include "transport/soft/verbs/verbs_table.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "transport/soft/address/gid_table.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

TEST(VerbsTableTest, EveryEntryIsFilled) {
  const transport::VerbsOps ops = SoftVerbsOps();
  void* entries[sizeof(ops) / sizeof(void*)];
  std::memcpy(entries, &ops, sizeof(ops));
  for (void* entry : entries) EXPECT_NE(entry, nullptr);
}

TEST(VerbsTableTest, TheDeviceIsCalledSoft) {
  const transport::VerbsOps ops = SoftVerbsOps();
  int count = 0;
  ibv_device** devices = ops.get_device_list(&count);
  ASSERT_EQ(count, 1);
  EXPECT_STREQ(ops.get_device_name(devices[0]), "soft");
  EXPECT_EQ(devices[1], nullptr);
  ops.free_device_list(devices);
}

TEST(VerbsTableTest, EveryPortIsUpAndHasTheSameAddresses) {
  TestEnd end;
  ibv_port_attr port;
  ibv_gid gid;
  ibv_gid first;
  ASSERT_EQ(end.verbs.query_gid(end.context, 1, 0, &first), 0);
  EXPECT_FALSE(SameGid(first, ibv_gid{}));
  for (uint8_t number = 1; number <= kPorts; ++number) {
    ASSERT_EQ(end.verbs.query_port(end.context, number, &port), 0);
    EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
    EXPECT_EQ(port.gid_tbl_len, GidTable::kEntries);
    EXPECT_EQ(end.verbs.query_gid(end.context, number, 0, &gid), 0);
    EXPECT_TRUE(SameGid(gid, first));
  }
  EXPECT_EQ(end.verbs.query_gid(end.context, 1, GidTable::kEntries - 1, &gid),
            0);
  EXPECT_TRUE(SameGid(gid, ibv_gid{}));
  EXPECT_NE(end.verbs.query_gid(end.context, 1, GidTable::kEntries, &gid), 0);
  EXPECT_NE(end.verbs.query_port(end.context, kPorts + 1, &port), 0);
  EXPECT_NE(end.verbs.query_gid(end.context, kPorts + 1, 0, &gid), 0);
}

TEST(VerbsTableTest, KeysDifferFromRegionToRegion) {
  TestEnd end;
  ibv_mr* again =
      end.verbs.reg_mr(end.pd, end.memory, 64, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(again, nullptr);
  EXPECT_NE(again->rkey, end.mr->rkey);
  EXPECT_EQ(end.verbs.dereg_mr(again), 0);
}

// reg_mr with these arguments; errno, or 0 if it succeeds.
int RegisterError(TestEnd& end, void* address, size_t length, int access) {
  errno = 0;
  ibv_mr* mr = end.verbs.reg_mr(end.pd, address, length, access);
  if (mr == nullptr) return errno;
  EXPECT_EQ(end.verbs.dereg_mr(mr), 0);
  return 0;
}

TEST(RegisterMemoryTest, RemoteWritingNeedsLocalWriting) {
  TestEnd end;
  EXPECT_EQ(RegisterError(end, end.memory, 64, IBV_ACCESS_REMOTE_WRITE),
            EINVAL);
  EXPECT_EQ(RegisterError(end, end.memory, 64, IBV_ACCESS_REMOTE_ATOMIC),
            EINVAL);
  EXPECT_EQ(RegisterError(end, end.memory, 64, IBV_ACCESS_REMOTE_READ), 0);
  EXPECT_EQ(RegisterError(end, end.memory, 64,
                          IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE),
            0);
}

TEST(RegisterMemoryTest, UnknownRightsAndEmptyOrWrappingRangesAreRefused) {
  TestEnd end;
  EXPECT_EQ(RegisterError(end, end.memory, 64, IBV_ACCESS_ZERO_BASED), EINVAL);
  EXPECT_EQ(RegisterError(end, end.memory, 0, 0), EINVAL);
  EXPECT_EQ(RegisterError(end, end.memory, SIZE_MAX, 0), EINVAL);
}

TEST(RegisterMemoryTest, MemoryThatIsNotMappedIsRefused) {
  TestEnd end;
  EXPECT_EQ(RegisterError(end, nullptr, 4096, 0), EFAULT);
  constexpr size_t kBytes = 64 << 20;
  void* region = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  EXPECT_EQ(RegisterError(end, region, kBytes, 0), 0);
  munmap(static_cast<char*>(region) + kBytes - 4096, 4096);
  EXPECT_EQ(RegisterError(end, region, kBytes, 0), EFAULT);
  munmap(region, kBytes - 4096);
}

TEST(DestroyTest, WhatIsInUseIsBusy) {
  TestEndOptions options;
  options.with_channel = true;
  options.shared_receives = 4;
  TestEnd end(options);
  EXPECT_EQ(end.verbs.close_device(end.context), EBUSY);
  EXPECT_EQ(end.verbs.dealloc_pd(end.pd), EBUSY);
  EXPECT_EQ(end.verbs.destroy_cq(end.cq), EBUSY);
  EXPECT_EQ(end.verbs.destroy_srq(end.srq), EBUSY);
  EXPECT_EQ(end.verbs.destroy_comp_channel(end.channel), EBUSY);
}

TEST(DestroyTest, AConnectedQueuePairMayGoAtAnyTime) {
  for (int i = 0; i < 50; ++i) {
    TestEnd a;
    TestEnd b;
    ConnectByHand(a, b);
    ASSERT_EQ(b.Receive(1, 0, 64), 0);
    ASSERT_EQ(a.Send(1, 0, 64), 0);
    if (i % 2 == 0) a.RunProtocol();
  }
}

// create_qp with these capacities; errno, or 0 if it succeeds.
int CreateError(TestEnd& end, ibv_qp_cap cap, ibv_qp_type type = IBV_QPT_RC) {
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = end.cq;
  attributes.qp_type = type;
  attributes.cap = cap;
  errno = 0;
  ibv_qp* qp = end.verbs.create_qp(end.pd, &attributes);
  if (qp == nullptr) return errno;
  EXPECT_EQ(end.verbs.destroy_qp(qp), 0);
  return 0;
}

TEST(CreateQueuePairTest, EachCapacityIsGrantedUpToItsLimit) {
  TestEnd end;
  const uint32_t depth = kQueueDepthMax;
  const uint32_t entries = kGatherEntriesMax;
  EXPECT_EQ(CreateError(end, {depth, 1, 1, 1, 0}), 0);
  EXPECT_EQ(CreateError(end, {depth + 1, 1, 1, 1, 0}), EINVAL);
  EXPECT_EQ(CreateError(end, {1, depth, 1, 1, 0}), 0);
  EXPECT_EQ(CreateError(end, {1, depth + 1, 1, 1, 0}), EINVAL);
  EXPECT_EQ(CreateError(end, {1, 1, entries, entries, 0}), 0);
  EXPECT_EQ(CreateError(end, {1, 1, entries + 1, 1, 0}), EINVAL);
  EXPECT_EQ(CreateError(end, {1, 1, 1, entries + 1, 0}), EINVAL);
  EXPECT_EQ(CreateError(end, {1, 1, 1, 1, kInlineBytesMax}), 0);
  EXPECT_EQ(CreateError(end, {1, 1, 1, 1, kInlineBytesMax + 1}), EINVAL);
  EXPECT_EQ(CreateError(end, {0, 0, 0, 0, 0}), 0);
}

TEST(CreateQueuePairTest, ConnectionsAndDatagramsExist) {
  TestEnd end;
  EXPECT_EQ(CreateError(end, {1, 1, 1, 1, 0}, IBV_QPT_UC), 0);
  EXPECT_EQ(CreateError(end, {1, 1, 1, 1, 0}, IBV_QPT_UD), 0);
  EXPECT_EQ(CreateError(end, {1, 1, 1, 1, 0}, IBV_QPT_RAW_PACKET), EOPNOTSUPP);
}

TEST(CreateQueuePairTest, ObjectsOfAnotherContextAreRefused) {
  TestEnd one;
  TestEnd two;
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = one.cq;
  attributes.recv_cq = two.cq;
  attributes.qp_type = IBV_QPT_RC;
  EXPECT_EQ(one.verbs.create_qp(one.pd, &attributes), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(CreateCompletionQueueTest, TheCapacityHasLimits) {
  TestEnd end;
  const auto create = [&](int cqe, int vector) {
    ibv_cq* cq =
        end.verbs.create_cq(end.context, cqe, nullptr, nullptr, vector);
    if (cq == nullptr) return false;
    EXPECT_GE(cq->cqe, cqe);
    EXPECT_EQ(end.verbs.destroy_cq(cq), 0);
    return true;
  };
  EXPECT_TRUE(create(1, 0));
  EXPECT_TRUE(create(kCompletionsMax, 0));
  EXPECT_FALSE(create(0, 0));
  EXPECT_FALSE(create(-1, 0));
  EXPECT_FALSE(create(kCompletionsMax + 1, 0));
  EXPECT_FALSE(create(1, 1));
}

TEST(PostTest, ARequestBeyondTheQueuePairsCapacitiesIsRefused) {
  TestEnd a;
  TestEnd b;
  ConnectByHand(a, b);
  std::vector<ibv_sge> entries(a.options.entries + 1, a.Entry(0, 1));
  ibv_send_wr request = {};
  request.sg_list = entries.data();
  request.num_sge = static_cast<int>(entries.size());
  request.opcode = IBV_WR_SEND;
  EXPECT_EQ(a.Post(request), EINVAL);
  request.num_sge = 1;
  request.opcode = IBV_WR_TSO;
  EXPECT_EQ(a.Post(request), EINVAL);
  EXPECT_EQ(a.Send(1, 0, a.options.inline_bytes, IBV_SEND_INLINE), 0);
  EXPECT_EQ(a.Send(1, 0, a.options.inline_bytes + 1, IBV_SEND_INLINE), EINVAL);
  EXPECT_EQ(a.Read(1, 0, 8, 0, 0, IBV_SEND_INLINE), EINVAL);
}

TEST(AsyncEventTest, ANonBlockingContextAnswersEagain) {
  TestEnd end;
  ASSERT_EQ(fcntl(end.context->async_fd, F_SETFL, O_NONBLOCK), 0);
  ibv_async_event event;
  EXPECT_EQ(end.verbs.get_async_event(end.context, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
  pollfd wait = {end.context->async_fd, POLLIN, 0};
  EXPECT_EQ(poll(&wait, 1, 0), 0);
}

}  // namespace
}  // namespace verbena::soft
