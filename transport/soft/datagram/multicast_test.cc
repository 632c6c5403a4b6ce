// Multicast between queue pairs of one process, over the host's interfaces.

#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>

#include "transport/base/socket_address.h"
#include "transport/soft/address/gid_table.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/datagram/datagram.h"
#include "transport/soft/datagram/datagram_verbs.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

ibv_gid GroupGid(const char* text) {
  return GidOf(*base::SocketAddress::ParseNumeric(text));
}

int SendToGroup(DatagramTestEnd& end, const ibv_gid& group, size_t length) {
  return end.SendDatagram({.ah = end.Handle(group),
                           .number = kMulticastQueuePair,
                           .length = length});
}

// A message to `group` reaches a member, and says where it came from and went.
void ExpectDelivery(const char* text) {
  ibv_gid group = GroupGid(text);
  DatagramTestEnd sender;
  DatagramTestEnd member;
  ASSERT_EQ(AttachMcast(member.qp, &group, 0), 0);
  ASSERT_EQ(member.Receive(1, 0, 100), 0);
  sender.Fill(0, "to all");
  ASSERT_EQ(SendToGroup(sender, group, 6), 0);
  const ibv_wc received = member.Wait(&sender);
  EXPECT_EQ(received.byte_len, kGlobalRouteBytes + 6);
  EXPECT_EQ(received.src_qp, sender.qp->qp_num);
  EXPECT_EQ(member.Text(kGlobalRouteBytes, 6), "to all");
  EXPECT_TRUE(member.StaysQuiet(&sender));  // There is one copy.
  EXPECT_EQ(DetachMcast(member.qp, &group, 0), 0);
}

TEST(MulticastTest, AMemberHearsWhatIsSentToAnIpv4Group) {
  ExpectDelivery("239.77.1.1:0");
}

TEST(MulticastTest, AMemberHearsWhatIsSentToAnIpv6Group) {
  ExpectDelivery("[ff15::77:1]:0");
}

TEST(MulticastTest, AMemberHearsWhatIsSentToAGroupOfANarrowScope) {
  ExpectDelivery("[ff10::77:1]:0");
  ExpectDelivery("[ff11::77:1]:0");
  ExpectDelivery("[ff12::77:1]:0");
}

TEST(MulticastTest, GroupsThatDifferInTheirScopeAreTwo) {
  ibv_gid narrow = GroupGid("[ff11::77:2]:0");
  ibv_gid wide = GroupGid("[ff15::77:2]:0");
  DatagramTestEnd a;
  DatagramTestEnd b;
  for (DatagramTestEnd* end : {&a, &b}) ASSERT_EQ(end->Receive(9, 0, 100), 0);
  ASSERT_EQ(AttachMcast(a.qp, &narrow, 0), 0);
  ASSERT_EQ(AttachMcast(b.qp, &wide, 0), 0);
  ASSERT_EQ(SendToGroup(b, narrow, 4), 0);
  EXPECT_EQ(a.Wait(&b).wr_id, 9u);
  EXPECT_EQ(b.Wait().opcode, IBV_WC_SEND);
  EXPECT_TRUE(b.StaysQuiet(&a));
  EXPECT_EQ(DetachMcast(a.qp, &narrow, 0), 0);
  EXPECT_EQ(DetachMcast(b.qp, &wide, 0), 0);
}

TEST(MulticastTest, AllMembersHearItTheSenderToo) {
  ibv_gid group = GroupGid("239.77.1.2:0");
  DatagramTestEnd a;
  DatagramTestEnd b;
  DatagramTestEnd outside;
  for (DatagramTestEnd* end : {&a, &b, &outside}) {
    ASSERT_EQ(end->Receive(9, 100, 100), 0);
  }
  ASSERT_EQ(AttachMcast(a.qp, &group, 0), 0);
  ASSERT_EQ(AttachMcast(b.qp, &group, 0), 0);
  ASSERT_EQ(SendToGroup(a, group, 4), 0);
  EXPECT_EQ(a.Wait().opcode, IBV_WC_SEND);
  EXPECT_EQ(a.Wait().wr_id, 9u);
  EXPECT_EQ(b.Wait().wr_id, 9u);
  EXPECT_TRUE(outside.StaysQuiet(nullptr));
  EXPECT_EQ(DetachMcast(a.qp, &group, 0), 0);
  EXPECT_EQ(DetachMcast(b.qp, &group, 0), 0);
}

TEST(MulticastTest, AMemberThatHasLeftHearsNothing) {
  ibv_gid group = GroupGid("239.77.1.3:0");
  DatagramTestEnd a;
  DatagramTestEnd b;
  ASSERT_EQ(AttachMcast(a.qp, &group, 0), 0);
  ASSERT_EQ(AttachMcast(b.qp, &group, 0), 0);
  ASSERT_EQ(DetachMcast(b.qp, &group, 0), 0);
  ASSERT_EQ(a.Receive(1, 100, 100), 0);
  ASSERT_EQ(b.Receive(1, 100, 100), 0);
  ASSERT_EQ(SendToGroup(a, group, 4), 0);
  a.Wait();
  a.Wait();  // The SEND and the receive have ended.
  EXPECT_TRUE(b.StaysQuiet(&a));
  EXPECT_EQ(DetachMcast(a.qp, &group, 0), 0);
}

TEST(MulticastTest, ThereAreAsManyGroupsAsTheDeviceSays) {
  DatagramTestEnd end;
  ibv_device_attr device;
  ASSERT_EQ(end.verbs.query_device(end.context, &device), 0);
  ibv_gid group = GroupGid("239.78.0.0:0");
  uint8_t& high = group.raw[14];
  uint8_t& low = group.raw[15];
  int count = 0;
  int error = 0;
  while (true) {
    high = static_cast<uint8_t>(count >> 8);
    low = static_cast<uint8_t>(count);
    error = end.verbs.attach_mcast(end.qp, &group, 0);
    if (error != 0) break;
    ++count;
  }
  EXPECT_EQ(error, ENOMEM);
  EXPECT_EQ(count, device.max_mcast_grp);
  while (count > 0) {
    --count;
    high = static_cast<uint8_t>(count >> 8);
    low = static_cast<uint8_t>(count);
    EXPECT_EQ(end.verbs.detach_mcast(end.qp, &group, 0), 0);
  }
}

TEST(MulticastTest, WhatIsAttachedIsBusy) {
  ibv_gid group = GroupGid("239.77.1.4:0");
  DatagramTestEnd end;
  ASSERT_EQ(AttachMcast(end.qp, &group, 0), 0);
  EXPECT_EQ(end.verbs.destroy_qp(end.qp), EBUSY);
  EXPECT_EQ(DetachMcast(end.qp, &group, 0), 0);
  EXPECT_EQ(DetachMcast(end.qp, &group, 0), EINVAL);
}

TEST(MulticastTest, OnlyDatagramsHaveGroupsAndOnlyGroupsMembers) {
  ibv_gid group = GroupGid("239.77.1.5:0");
  ibv_gid host = GroupGid("10.1.2.3:0");
  TestEnd connected;
  DatagramTestEnd end;
  EXPECT_EQ(AttachMcast(connected.qp, &group, 0), EINVAL);
  EXPECT_EQ(DetachMcast(connected.qp, &group, 0), EINVAL);
  EXPECT_EQ(AttachMcast(end.qp, &host, 0), EINVAL);
}

}  // namespace
}  // namespace verbena::soft
