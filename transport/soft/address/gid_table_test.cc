#include "transport/soft/address/gid_table.h"

#include <arpa/inet.h>
#include <sys/resource.h>

#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "transport/soft/address/mapped_gid.h"

namespace verbena::soft {
namespace {

base::SocketAddress Address(const std::string& text) {
  auto address = base::SocketAddress::ParseNumeric(text);
  EXPECT_TRUE(address.ok()) << text;
  return *address;
}

HostAddress Host(const std::string& text, uint32_t interface_index,
                 bool running = true) {
  return HostAddress{Address(text), interface_index, running};
}

std::string Text(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(AF_INET6, gid.raw, text, sizeof(text));
  return text;
}

std::vector<std::string> Texts(const GidTable& table, int count) {
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) {
    const std::optional<ibv_gid_entry> entry = table.At(i);
    texts.push_back(entry.has_value() ? Text(entry->gid) : "-");
  }
  return texts;
}

using Lines = std::vector<std::string>;

TEST(GidTest, ShowsTheAddressItStandsFor) {
  EXPECT_EQ(Text(GidOf(Address("10.1.2.3:7"))), "::ffff:10.1.2.3");
  EXPECT_EQ(Text(GidOf(Address("[fd00::7]:7"))), "fd00::7");
}

TEST(GidTest, AddressComesBackOutOfItsGid) {
  for (const char* text : {"10.1.2.3:99", "[fd00::7]:99", "127.0.0.1:99"}) {
    EXPECT_EQ(AddressOf(GidOf(Address(text)), 99), Address(text)) << text;
  }
  EXPECT_TRUE(AddressOf(ibv_gid{}).empty());
}

TEST(GidTest, LinkLocalAddressNeedsItsInterface) {
  const ibv_gid gid = GidOf(Address("[fe80::1]:0"));
  const base::SocketAddress address = AddressOf(gid, 5, 3);
  EXPECT_EQ(reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_scope_id,
            3u);
}

TEST(GidTest, TellsGroupsAndIpv4) {
  const auto gid = [](const char* text) {
    ibv_gid read;
    EXPECT_EQ(inet_pton(AF_INET6, text, read.raw), 1);
    return read;
  };
  EXPECT_TRUE(IsMulticastGid(gid("ff0e::1")));
  EXPECT_TRUE(IsMulticastGid(gid("::ffff:239.1.2.3")));
  EXPECT_FALSE(IsMulticastGid(gid("::ffff:10.1.2.3")));
  EXPECT_FALSE(IsMulticastGid(gid("fd00::1")));
  EXPECT_TRUE(IsIpv4Gid(gid("::ffff:10.1.2.3")));
  EXPECT_FALSE(IsIpv4Gid(gid("::10.1.2.3")));
}

TEST(GidTableTest, BeginsWithWhatOtherHostsReachAndEndsWithLoopback) {
  GidTable table;
  table.Update({Host("127.0.0.1:0", 1), Host("[::1]:0", 1),
                Host("[fe80::2]:0", 2), Host("[fd00::2]:0", 2),
                Host("172.17.0.1:0", 3, false), Host("10.0.0.3:0", 4),
                Host("10.0.0.9:0", 2)});
  EXPECT_EQ(Texts(table, 8),
            (Lines{"::ffff:10.0.0.9", "::ffff:10.0.0.3", "fd00::2", "fe80::2",
                   "::ffff:172.17.0.1", "::ffff:127.0.0.1", "::1", "-"}));
}

TEST(GidTableTest, MachineWithNothingElseHasLoopback) {
  GidTable table;
  table.Update({Host("[::1]:0", 1), Host("127.0.0.1:0", 1)});
  EXPECT_EQ(Texts(table, 2), (Lines{"::ffff:127.0.0.1", "::1"}));
}

TEST(GidTableTest, AddressKeepsItsIndexWhileOthersComeAndGo) {
  GidTable table;
  table.Update({Host("10.0.0.1:0", 2), Host("10.0.0.2:0", 2)});
  table.Update({Host("10.0.0.2:0", 2)});
  EXPECT_EQ(Texts(table, 2), (Lines{"-", "::ffff:10.0.0.2"}));
  table.Update({Host("10.0.0.2:0", 2), Host("10.0.0.3:0", 2)});
  EXPECT_EQ(Texts(table, 2), (Lines{"::ffff:10.0.0.3", "::ffff:10.0.0.2"}));
}

TEST(GidTableTest, EntryNamesItsTypeAndInterface) {
  GidTable table;
  table.Update({Host("10.0.0.1:0", 7)});
  const std::optional<ibv_gid_entry> entry = table.At(0);
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->gid_type, uint32_t{IBV_GID_TYPE_ROCE_V2});
  EXPECT_EQ(entry->ndev_ifindex, 7u);
}

TEST(GidTableTest, FindsByGid) {
  GidTable table;
  table.Update({Host("10.0.0.1:0", 2), Host("10.0.0.2:0", 2)});
  EXPECT_EQ(table.Find(GidOf(Address("10.0.0.2:0"))), 1);
  EXPECT_EQ(table.Find(GidOf(Address("10.0.0.3:0"))), std::nullopt);
  EXPECT_EQ(table.Find(ibv_gid{}), std::nullopt);
}

TEST(GidTableTest, HoldsNoMoreThanItReports) {
  std::vector<HostAddress> hosts;
  hosts.reserve(GidTable::kEntries + 10);
  for (int i = 0; i < GidTable::kEntries + 10; ++i) {
    hosts.push_back(Host("10.0." + std::to_string(i / 250) + "." +
                             std::to_string(i % 250 + 1) + ":0",
                         2));
  }
  GidTable table;
  table.Update(hosts);
  EXPECT_TRUE(table.At(GidTable::kEntries - 1).has_value());
  EXPECT_FALSE(table.At(GidTable::kEntries).has_value());
}

TEST(GidTableTest, ThisHostHasAnAddress) {
  GidTable table;
  table.Refresh();
  EXPECT_TRUE(table.At(0).has_value());
}

// A server at its limit of descriptors still accepts clients that are connected
// already. For that it looks its own address up.
TEST(GidTableTest, AProcessWithoutDescriptorsKeepsItsAddresses) {
  GidTable table;
  table.Refresh();
  const std::optional<ibv_gid_entry> before = table.At(0);
  ASSERT_TRUE(before.has_value());
  rlimit usual;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  table.Refresh();
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  const std::optional<ibv_gid_entry> after = table.At(0);
  ASSERT_TRUE(after.has_value());
  EXPECT_TRUE(SameGid(after->gid, before->gid));
  EXPECT_EQ(after->ndev_ifindex, before->ndev_ifindex);
}

}  // namespace
}  // namespace verbena::soft
