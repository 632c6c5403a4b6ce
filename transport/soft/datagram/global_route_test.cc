#include "transport/soft/datagram/global_route.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>

#include "transport/soft/address/mapped_gid.h"

namespace verbena::soft {
namespace {

ibv_gid Gid(const char* text) {
  ibv_gid gid;
  EXPECT_EQ(inet_pton(AF_INET6, text, gid.raw), 1);
  return gid;
}

bool operator==(const ibv_gid& a, const ibv_gid& b) {
  return std::memcmp(a.raw, b.raw, sizeof(a.raw)) == 0;
}

DatagramHeader Header(const char* source, const char* destination) {
  DatagramHeader header;
  header.source = Gid(source);
  header.destination = Gid(destination);
  header.hop_limit = 17;
  header.traffic_class = 0x28;
  header.flow_label = 0x12345;
  return header;
}

ibv_grh Written(const DatagramHeader& header) {
  const GlobalRouteBytes bytes = WriteGlobalRoute(header, 100);
  ibv_grh grh;
  std::memcpy(&grh, bytes.data(), sizeof(grh));
  return grh;
}

TEST(GlobalRouteTest, Ipv6IsReadAsItWasSent) {
  const DatagramHeader header = Header("fd00::1", "fd00::2");
  const auto route = ReadGlobalRoute(Written(header));
  ASSERT_TRUE(route.has_value());
  EXPECT_TRUE(route->source == header.source);
  EXPECT_TRUE(route->destination == header.destination);
  EXPECT_EQ(route->hop_limit, 17);
  EXPECT_EQ(route->traffic_class, 0x28);
  EXPECT_EQ(route->flow_label, 0x12345u);
}

TEST(GlobalRouteTest, Ipv4IsInTheLast20Bytes) {
  const DatagramHeader header = Header("::ffff:10.0.0.1", "::ffff:10.0.0.2");
  const ibv_grh grh = Written(header);
  unsigned char bytes[40];
  std::memcpy(bytes, &grh, sizeof(bytes));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(bytes[i], 0) << i;
  EXPECT_EQ(bytes[20], 0x45);
  EXPECT_EQ(bytes[29], IPPROTO_UDP);
  EXPECT_EQ(std::memcmp(bytes + 32, "\x0a\0\0\1\x0a\0\0\2", 8), 0);
  const auto route = ReadGlobalRoute(grh);
  ASSERT_TRUE(route.has_value());
  EXPECT_TRUE(route->source == header.source);
  EXPECT_TRUE(route->destination == header.destination);
  EXPECT_EQ(route->hop_limit, 17);
  EXPECT_EQ(route->traffic_class, 0x28);
}

TEST(GlobalRouteTest, AWrongIpv4ChecksumIsNoHeader) {
  ibv_grh grh = Written(Header("::ffff:10.0.0.1", "::ffff:10.0.0.2"));
  grh.dgid.raw[15] ^= 1;
  EXPECT_FALSE(ReadGlobalRoute(grh).has_value());
}

TEST(GlobalRouteTest, ZerosAreNoHeader) {
  EXPECT_FALSE(ReadGlobalRoute(ibv_grh{}).has_value());
}

}  // namespace
}  // namespace verbena::soft
