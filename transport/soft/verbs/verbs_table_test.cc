// Tests of the tables, and of refusals that only the software device makes.
// Tests for every device are in tests/conformance.

#include "transport/soft/verbs/verbs_table.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

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

// Calls reg_mr with these arguments. Returns 0 or the errno.
int RegisterError(TestEnd& end, void* address, size_t length, int access) {
  errno = 0;
  ibv_mr* mr = end.verbs.reg_mr(end.pd, address, length, access);
  if (mr == nullptr) return errno;
  EXPECT_EQ(end.verbs.dereg_mr(mr), 0);
  return 0;
}

TEST(RegisterMemoryTest, UnknownRightsAndWrappingRangesAreRefused) {
  TestEnd end;
  EXPECT_EQ(RegisterError(end, end.memory, 64, 1 << 12), EINVAL);
  EXPECT_EQ(RegisterError(end, end.memory, SIZE_MAX, 0), EINVAL);
}

TEST(DestroyTest, AContextThatIsInUseIsBusy) {
  TestEnd end;
  EXPECT_EQ(end.verbs.close_device(end.context), EBUSY);
}

TEST(CreateQueuePairTest, RawPacketsAreNotSupported) {
  TestEnd end;
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = end.cq;
  attributes.qp_type = IBV_QPT_RAW_PACKET;
  attributes.cap = {1, 1, 1, 1, 0};
  EXPECT_EQ(end.verbs.create_qp(end.pd, &attributes), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
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

// A copy of an object is none.
template <typename T>
T* Forged(const T& object, T& room) {
  std::memcpy(&room, &object, sizeof(room));
  return &room;
}

TEST(HandlesTest, WhatWasNeverMadeIsRefused) {
  TestEnd end;
  ibv_pd pd;
  ibv_cq cq;
  ibv_qp qp;
  ibv_mr mr;
  EXPECT_EQ(end.verbs.dealloc_pd(Forged(*end.pd, pd)), EINVAL);
  EXPECT_EQ(end.verbs.destroy_cq(Forged(*end.cq, cq)), EINVAL);
  EXPECT_EQ(end.verbs.destroy_qp(Forged(*end.qp, qp)), EINVAL);
  EXPECT_EQ(end.verbs.dereg_mr(Forged(*end.mr, mr)), EINVAL);
  EXPECT_EQ(end.verbs.destroy_srq(nullptr), EINVAL);
  EXPECT_EQ(end.verbs.destroy_ah(nullptr), EINVAL);
  EXPECT_EQ(end.verbs.destroy_comp_channel(nullptr), EINVAL);
  EXPECT_EQ(end.verbs.close_device(nullptr), EINVAL);
  errno = 0;
  EXPECT_EQ(end.verbs.reg_mr(&pd, end.memory, 64, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = &cq;
  attributes.qp_type = IBV_QPT_RC;
  EXPECT_EQ(end.verbs.create_qp(end.pd, &attributes), nullptr);
}

TEST(HandlesTest, WhatIsDestroyedTwiceIsRefused) {
  TestEnd end;
  ibv_pd* const pd = end.verbs.alloc_pd(end.context);
  EXPECT_EQ(end.verbs.dealloc_pd(pd), 0);
  EXPECT_EQ(end.verbs.dealloc_pd(pd), EINVAL);
  ibv_cq* const cq = end.verbs.create_cq(end.context, 4, nullptr, nullptr, 0);
  EXPECT_EQ(end.verbs.destroy_cq(cq), 0);
  EXPECT_EQ(end.verbs.destroy_cq(cq), EINVAL);
  EXPECT_EQ(end.verbs.resize_cq(cq, 8), EINVAL);
  ibv_mr* const mr = end.verbs.reg_mr(end.pd, end.memory, 64, 0);
  EXPECT_EQ(end.verbs.dereg_mr(mr), 0);
  EXPECT_EQ(end.verbs.dereg_mr(mr), EINVAL);
}

TEST(HandlesTest, AHandleOfAnotherTypeIsRefused) {
  TestEnd end;
  EXPECT_EQ(end.verbs.destroy_cq(reinterpret_cast<ibv_cq*>(end.qp)), EINVAL);
  EXPECT_EQ(end.verbs.dealloc_pd(reinterpret_cast<ibv_pd*>(end.mr)), EINVAL);
}

TEST(PostTest, ARequestOfAWindowThatLacksSomethingIsRefused) {
  TestEnd a;
  TestEnd b;
  ConnectManually(a, b);
  ibv_send_wr request = {};
  request.opcode = IBV_WR_BIND_MW;  // Without a window.
  EXPECT_EQ(a.Post(request), EINVAL);
  ibv_sge entry = a.Entry(0, 4);
  request.opcode = IBV_WR_LOCAL_INV;
  request.sg_list = &entry;
  request.num_sge = 1;
  EXPECT_EQ(a.Post(request), EINVAL);
  EXPECT_EQ(ibv_alloc_mw(a.pd, static_cast<ibv_mw_type>(3)), nullptr);
}

}  // namespace
}  // namespace verbena::soft
