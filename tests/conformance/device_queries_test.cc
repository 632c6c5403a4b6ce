// Queries about a device, its port and its objects.

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "tests/conformance/differences.h"
#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

class DeviceQueriesTest : public testing::Test {
 protected:
  ibv_device_attr Device() {
    ibv_device_attr attributes = {};
    EXPECT_EQ(Verbs().query_device(end.context, &attributes), 0);
    return attributes;
  }
  ibv_port_attr Port() {
    ibv_port_attr attributes = {};
    EXPECT_EQ(Verbs().query_port(end.context, kPort, &attributes), 0);
    return attributes;
  }

  End end;
};

TEST_F(DeviceQueriesTest, TheDeviceGrantsWhatTheSuiteNeeds) {
  const ibv_device_attr device = Device();
  EXPECT_GE(device.max_qp, 100);
  EXPECT_GE(device.max_qp_wr, 64);
  EXPECT_GE(device.max_sge, 4);
  EXPECT_GE(device.max_cqe, 1024);
  EXPECT_GE(device.max_srq_wr, 64);
  EXPECT_GE(device.max_qp_rd_atom, 4);
  EXPECT_GE(device.max_mr_size, uint64_t{1} << 31);
  EXPECT_GE(device.phys_port_cnt, 1);
  EXPECT_GE(device.max_pkeys, 1);
  EXPECT_NE(device.atomic_cap, IBV_ATOMIC_NONE);
  EXPECT_NE(device.device_cap_flags & IBV_DEVICE_MEM_WINDOW, 0u);
  EXPECT_NE(device.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B, 0u);
  EXPECT_EQ(device.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A, 0u);
  EXPECT_GT(device.max_mw, 0);
  EXPECT_NE(device.device_cap_flags & IBV_DEVICE_SRQ_RESIZE, 0u);
}

// Programs look before they try.
TEST_F(DeviceQueriesTest, TheDeviceSaysWhoItIsAndWhatDatagramsMayHave) {
  const ibv_device_attr device = Device();
  EXPECT_NE(device.vendor_id, 0u);
  EXPECT_GT(device.max_ah, 0);
  EXPECT_GT(device.max_mcast_grp, 0);
  EXPECT_GT(device.max_mcast_qp_attach, 0);
  EXPECT_GE(device.max_total_mcast_qp_attach, device.max_mcast_qp_attach);
}

TEST_F(DeviceQueriesTest, TheExtendedAnswerBeginsWithTheOther) {
  const ibv_device_attr device = Device();
  ibv_device_attr_ex extended = {};
  ASSERT_EQ(ibv_query_device_ex(end.context, nullptr, &extended), 0);
  EXPECT_EQ(extended.orig_attr.max_qp, device.max_qp);
  EXPECT_EQ(extended.orig_attr.max_cqe, device.max_cqe);
  EXPECT_EQ(extended.orig_attr.node_guid, device.node_guid);
  EXPECT_EQ(extended.completion_timestamp_mask != 0,
            Keeps(Promise::kCompletionsHaveTimes));
}

TEST_F(DeviceQueriesTest, APortIsActiveAndOfEthernet) {
  const ibv_port_attr port = Port();
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_GE(port.active_mtu, IBV_MTU_1024);
  EXPECT_GE(port.max_mtu, port.active_mtu);
  EXPECT_GE(port.max_msg_sz, 1u << 20);
  EXPECT_GE(port.gid_tbl_len, 1);
  EXPECT_GE(port.pkey_tbl_len, 1);
}

TEST_F(DeviceQueriesTest, APortThatIsNotThereIsRefused) {
  ibv_port_attr attributes = {};
  EXPECT_EQ(Verbs().query_port(end.context, 0, &attributes), EINVAL);
  EXPECT_EQ(Verbs().query_port(end.context,
                               static_cast<uint8_t>(Device().phys_port_cnt + 1),
                               &attributes),
            EINVAL);
}

TEST_F(DeviceQueriesTest, AGidBeyondTheTableIsRefused) {
  ibv_gid gid = {};
  EXPECT_NE(Verbs().query_gid(end.context, kPort, Port().gid_tbl_len, &gid), 0);
  EXPECT_NE(Verbs().query_gid(end.context, kPort, -1, &gid), 0);
  EXPECT_EQ(Verbs().query_gid(end.context, kPort, end.gid.index, &gid), 0);
  EXPECT_EQ(std::memcmp(&gid, &end.gid.gid, sizeof(gid)), 0);
}

TEST_F(DeviceQueriesTest, TheFirstPartitionIsTheDefaultOne) {
  __be16 key = 0;
  ASSERT_EQ(Verbs().query_pkey(end.context, kPort, 0, &key), 0);
  EXPECT_EQ(key, 0xffff);
  EXPECT_NE(Verbs().query_pkey(end.context, kPort, Port().pkey_tbl_len, &key),
            0);
}

TEST_F(DeviceQueriesTest, AQueuePairSaysWithWhatItWasMade) {
  ibv_qp_attr attributes = {};
  ibv_qp_init_attr init = {};
  ASSERT_EQ(Verbs().query_qp(end.qp, &attributes, IBV_QP_CAP, &init), 0);
  EXPECT_EQ(init.qp_type, IBV_QPT_RC);
  EXPECT_EQ(init.send_cq, end.cq);
  EXPECT_EQ(init.recv_cq, end.cq);
  EXPECT_EQ(init.srq, nullptr);
  EXPECT_GE(init.cap.max_send_wr, end.options.send_depth);
  EXPECT_GE(init.cap.max_recv_wr, end.options.receive_depth);
  EXPECT_GE(init.cap.max_send_sge, end.options.entries);
  EXPECT_GE(init.cap.max_inline_data, end.options.inline_bytes);
}

// Programs post a little more than they asked for: NICs round up.
TEST_F(DeviceQueriesTest, WhatIsGrantedIsRoundedUpAndReported) {
  if (!Keeps(Promise::kDepthsAreRoundedUp)) return;
  ibv_qp_init_attr init = {};
  init.send_cq = init.recv_cq = end.cq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {5, 6, 1, 1, 0};
  ibv_qp* const qp = Verbs().create_qp(end.pd, &init);
  ASSERT_NE(qp, nullptr);
  EXPECT_GE(init.cap.max_send_wr, 8u);
  EXPECT_GE(init.cap.max_recv_wr, 8u);
  EXPECT_EQ(Verbs().destroy_qp(qp), 0);
  ibv_srq_init_attr shared = {};
  shared.attr = {5, 1, 0};
  ibv_srq* const srq = Verbs().create_srq(end.pd, &shared);
  ASSERT_NE(srq, nullptr);
  EXPECT_GE(shared.attr.max_wr, 7u);
  EXPECT_EQ(Verbs().destroy_srq(srq), 0);
}

TEST_F(DeviceQueriesTest, ACompletionQueueIsRoundedUp) {
  ibv_cq* const cq = Verbs().create_cq(end.context, 5, nullptr, nullptr, 0);
  ASSERT_NE(cq, nullptr);
  EXPECT_GE(cq->cqe, 7);
  EXPECT_EQ(Verbs().resize_cq(cq, 9), 0);
  EXPECT_GE(cq->cqe, 15);
  EXPECT_EQ(Verbs().destroy_cq(cq), 0);
}

TEST_F(DeviceQueriesTest, SomeBytesAreInlineThoughNoneWereAskedFor) {
  EndOptions options;
  options.inline_bytes = 0;
  options.entries = 1;
  End a(options);
  Connect(a, end);
  EXPECT_GE(a.Granted().max_inline_data, 16u);
  ASSERT_EQ(end.Receive(7, 0, 64), 0);
  EXPECT_EQ(a.Send(1, 0, 16, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
}

TEST_F(DeviceQueriesTest, ADatagramQueuePairSaysItsQkey) {
  DatagramEnd datagrams;
  ibv_qp_attr attributes = {};
  ibv_qp_init_attr init = {};
  ASSERT_EQ(Verbs().query_qp(datagrams.qp, &attributes,
                             IBV_QP_STATE | IBV_QP_QKEY, &init),
            0);
  EXPECT_EQ(init.qp_type, IBV_QPT_UD);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attributes.qkey, kTestQkey);
}

TEST_F(DeviceQueriesTest, ASharedQueueSaysItsSize) {
  EndOptions options;
  options.shared_receives = 8;
  End shared(options);
  ibv_srq_attr attributes = {};
  ASSERT_EQ(Verbs().query_srq(shared.srq, &attributes), 0);
  EXPECT_GE(attributes.max_wr, 8u);
  EXPECT_GE(attributes.max_sge, options.entries);
  EXPECT_EQ(attributes.srq_limit, 0u);
}

TEST_F(DeviceQueriesTest, MoreInlineThanTheDeviceHasIsRefused) {
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = end.cq;
  attributes.cap = {4, 4, 1, 1, 1 << 20};
  attributes.qp_type = IBV_QPT_RC;
  EXPECT_EQ(Verbs().create_qp(end.pd, &attributes), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

// Device memory.

TEST_F(DeviceQueriesTest, ThereIsAsMuchDeviceMemoryAsTheDeviceSays) {
  ibv_device_attr_ex device = {};
  ASSERT_EQ(ibv_query_device_ex(end.context, nullptr, &device), 0);
  ibv_alloc_dm_attr attributes = {64, 0, 0};
  if (!Keeps(Promise::kTheDeviceHasMemory)) {
    EXPECT_EQ(device.max_dm_size, 0u);
    EXPECT_EQ(ibv_alloc_dm(end.context, &attributes), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    return;
  }
  attributes.length = device.max_dm_size + 1;
  EXPECT_EQ(ibv_alloc_dm(end.context, &attributes), nullptr);
  attributes.length = device.max_dm_size;
  ibv_dm* const all = ibv_alloc_dm(end.context, &attributes);
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(ibv_free_dm(all), 0);
}

TEST_F(DeviceQueriesTest, APeerWritesDeviceMemoryFromAddressZero) {
  End peer;
  Connect(end, peer);
  ibv_alloc_dm_attr attributes = {4096, 0, 0};
  ibv_dm* const dm = ibv_alloc_dm(peer.context, &attributes);
  if (!Keeps(Promise::kTheDeviceHasMemory)) {
    EXPECT_EQ(dm, nullptr);
    return;
  }
  ASSERT_NE(dm, nullptr);
  ibv_mr* const region = ibv_reg_dm_mr(
      peer.pd, dm, 1000, 100,
      static_cast<unsigned int>(kAllAccess | IBV_ACCESS_ZERO_BASED));
  ASSERT_NE(region, nullptr) << "errno " << errno;
  end.Fill(0, "hello");
  ASSERT_EQ(end.Write(1, 0, 5, 95, region->rkey), 0);
  EXPECT_EQ(end.Outcome(1), IBV_WC_SUCCESS);
  char text[5];
  EXPECT_EQ(ibv_memcpy_from_dm(text, dm, 1095, sizeof(text)), 0);
  EXPECT_EQ(std::memcmp(text, "hello", sizeof(text)), 0);
  EXPECT_NE(ibv_memcpy_from_dm(text, dm, 4092, sizeof(text)), 0);
  EXPECT_NE(ibv_memcpy_to_dm(dm, 4092, text, sizeof(text)), 0);
  EXPECT_NE(ibv_memcpy_to_dm(dm, UINT64_MAX, text, sizeof(text)), 0);
  EXPECT_EQ(ibv_free_dm(dm), EBUSY) << "a region is left";
  EXPECT_EQ(Verbs().dereg_mr(region), 0);
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

}  // namespace
}  // namespace verbena::conformance
