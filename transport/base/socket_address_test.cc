#include "transport/base/socket_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace verbena::base {
namespace {

using ::testing::HasSubstr;

// Returns the parsed address of `text` written out again, or the error.
std::string RoundTrip(absl::string_view text) {
  const absl::StatusOr<SocketAddress> address = SocketAddress::Parse(text);
  return address.ok() ? address->ToString() : address.status().ToString();
}

TEST(SocketAddressTest, ReadsAndWritesIpv4) {
  EXPECT_EQ(RoundTrip("10.0.0.7:50051"), "10.0.0.7:50051");
  EXPECT_EQ(RoundTrip("0.0.0.0:0"), "0.0.0.0:0");
  EXPECT_EQ(RoundTrip("127.0.0.1:65535"), "127.0.0.1:65535");
}

TEST(SocketAddressTest, ReadsAndWritesIpv6) {
  EXPECT_EQ(RoundTrip("[::1]:50051"), "[::1]:50051");
  EXPECT_EQ(RoundTrip("[::]:1"), "[::]:1");
  EXPECT_EQ(RoundTrip("[fd00:0:0::7]:50051"), "[fd00::7]:50051");
}

TEST(SocketAddressTest, KeepsTheInterfaceOfALinkLocalAddress) {
  EXPECT_EQ(RoundTrip("[fe80::1%lo]:50051"), "[fe80::1%lo]:50051");
  // The resolver takes no name here.
  EXPECT_EQ(RoundTrip("[::1%1]:50051"), "[::1%1]:50051");
}

TEST(SocketAddressTest, ResolvesHostNames) {
  const auto addresses = SocketAddress::Resolve("localhost:50051");
  ASSERT_TRUE(addresses.ok()) << addresses.status();
  ASSERT_FALSE(addresses->empty());
  for (const SocketAddress& address : *addresses) {
    EXPECT_TRUE(address.IsLoopback()) << address.ToString();
    EXPECT_EQ(address.port(), 50051);
  }
}

TEST(SocketAddressTest, ResolvesNoNameWhenOnlyDigitsWillDo) {
  EXPECT_FALSE(SocketAddress::ParseNumeric("localhost:1").ok());
  EXPECT_EQ(SocketAddress::ParseNumeric("[::1]:1")->ToString(), "[::1]:1");
  EXPECT_EQ(SocketAddress::ParseNumeric("1.2.3.4:1")->ToString(), "1.2.3.4:1");
}

TEST(SocketAddressTest, SaysWhichHostIsUnknown) {
  const auto address = SocketAddress::Parse("no-such-host.invalid:1");
  ASSERT_FALSE(address.ok());
  EXPECT_THAT(address.status().message(), HasSubstr("no-such-host.invalid"));
}

TEST(SocketAddressTest, SaysWhatIsWrongWithTheText) {
  const auto problem = [](absl::string_view text) {
    const auto address = SocketAddress::Parse(text);
    EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
    return std::string(address.status().message());
  };
  EXPECT_THAT(problem(""), HasSubstr("port is missing"));
  EXPECT_THAT(problem("10.0.0.7"), HasSubstr("port is missing"));
  EXPECT_THAT(problem("10.0.0.7:"), HasSubstr("port is missing"));
  EXPECT_THAT(problem("[::1]"), HasSubstr("port is missing"));
  EXPECT_THAT(problem("[::1]50051"), HasSubstr("port is missing"));
  EXPECT_THAT(problem("[::1"), HasSubstr("'[' without ']'"));
  EXPECT_THAT(problem("::1:50051"), HasSubstr("brackets"));
  EXPECT_THAT(problem("dns:///host.example:50051"), HasSubstr("a scheme"));
  EXPECT_THAT(problem(":50051"), HasSubstr("host is missing"));
  EXPECT_THAT(problem("[]:50051"), HasSubstr("host is missing"));
  EXPECT_THAT(problem("10.0.0.7:65536"), HasSubstr("above 65535"));
  EXPECT_THAT(problem("10.0.0.7:99999999999999999999"),
              HasSubstr("above 65535"));
  EXPECT_THAT(problem("10.0.0.7:-1"), HasSubstr("not a number"));
  EXPECT_THAT(problem("10.0.0.7:http"), HasSubstr("not a number"));
  EXPECT_THAT(problem("10.0.0.7: 80"), HasSubstr("not a number"));
  EXPECT_THAT(problem("a b:80"), HasSubstr("blank"));
  EXPECT_THAT(problem(absl::string_view("a\0b:80", 6)), HasSubstr("blank"));
}

TEST(SocketAddressTest, KnowsWildcardAndLoopback) {
  EXPECT_EQ(SocketAddress::Any(AF_INET, 7).ToString(), "0.0.0.0:7");
  EXPECT_EQ(SocketAddress::Any(AF_INET6, 7).ToString(), "[::]:7");
  EXPECT_EQ(SocketAddress::Loopback(AF_INET, 7).ToString(), "127.0.0.1:7");
  EXPECT_EQ(SocketAddress::Loopback(AF_INET6, 7).ToString(), "[::1]:7");
  EXPECT_TRUE(SocketAddress::Any(AF_INET, 7).IsAny());
  EXPECT_TRUE(SocketAddress::Any(AF_INET6, 7).IsAny());
  EXPECT_TRUE(SocketAddress::Parse("127.8.9.10:1")->IsLoopback());
  EXPECT_TRUE(SocketAddress::Parse("[::1]:1")->IsLoopback());
  EXPECT_FALSE(SocketAddress::Parse("10.0.0.7:1")->IsLoopback());
  EXPECT_FALSE(SocketAddress::Loopback(AF_INET, 7).IsAny());
}

TEST(SocketAddressTest, SurvivesTheWayThroughSockaddr) {
  for (const char* text : {"10.0.0.7:50051", "[fd00::7]:50051"}) {
    const SocketAddress address = *SocketAddress::Parse(text);
    EXPECT_EQ(SocketAddress::FromSockaddr(address.get()), address);
  }
  EXPECT_EQ(SocketAddress::Any(AF_INET, 1).size(), sizeof(sockaddr_in));
  EXPECT_EQ(SocketAddress::Any(AF_INET6, 1).size(), sizeof(sockaddr_in6));
}

TEST(SocketAddressTest, IsEmptyForOtherFamilies) {
  sockaddr unix_address = {};
  unix_address.sa_family = AF_UNIX;
  for (const SocketAddress& address :
       {SocketAddress(), SocketAddress::FromSockaddr(nullptr),
        SocketAddress::FromSockaddr(&unix_address)}) {
    EXPECT_TRUE(address.empty());
    EXPECT_EQ(address.ToString(), "unknown");
    EXPECT_EQ(address.port(), 0);
    EXPECT_EQ(address.size(), 0u);
    EXPECT_FALSE(address.IsAny());
    EXPECT_FALSE(address.IsLoopback());
  }
}

TEST(SocketAddressTest, KnowsWhatIsLikelyOfOneOwner) {
  const auto share = [](absl::string_view a, absl::string_view b) {
    return SocketAddress::ParseNumeric(a)->SharesNetworkWith(
        *SocketAddress::ParseNumeric(b));
  };
  EXPECT_TRUE(share("10.0.0.7:1", "10.0.0.7:2"));
  EXPECT_FALSE(share("10.0.0.7:1", "10.0.0.8:1"));
  EXPECT_TRUE(share("[fd00:1:2:3::1]:1", "[fd00:1:2:3:ffff::2]:2"));
  EXPECT_FALSE(share("[fd00:1:2:3::1]:1", "[fd00:1:2:4::1]:1"));
  EXPECT_TRUE(share("[::ffff:10.0.0.7]:1", "[::ffff:10.0.0.7]:2"));
  EXPECT_FALSE(share("[::ffff:10.0.0.7]:1", "[::ffff:10.0.0.8]:1"));
  EXPECT_FALSE(share("[::1]:1", "127.0.0.1:1"));
}

TEST(SocketAddressTest, ComparesFamilyHostAndPort) {
  const SocketAddress address = *SocketAddress::Parse("10.0.0.7:1");
  SocketAddress other_port = address;
  other_port.set_port(2);
  EXPECT_NE(address, other_port);
  EXPECT_NE(address, *SocketAddress::Parse("10.0.0.8:1"));
  EXPECT_NE(SocketAddress::Any(AF_INET, 1), SocketAddress::Any(AF_INET6, 1));
  EXPECT_NE(SocketAddress::Any(AF_INET, 0), SocketAddress());
  EXPECT_EQ(SocketAddress(), SocketAddress());
}

}  // namespace
}  // namespace verbena::base
