#include "rpc/internal/service/target.h"

#include <gtest/gtest.h>

namespace verbena::internal {
namespace {

TEST(TargetTest, HasSchemeAuthorityAndPath) {
  const auto target = ParseTarget("DNS://10.0.0.53:53/orders.example:7471");
  ASSERT_TRUE(target.has_value());
  EXPECT_EQ(target->scheme, "dns");
  EXPECT_EQ(target->authority, "10.0.0.53:53");
  EXPECT_EQ(target->path, "orders.example:7471");
  EXPECT_EQ(target->text, "DNS://10.0.0.53:53/orders.example:7471");
}

TEST(TargetTest, MayHaveNoAuthority) {
  EXPECT_EQ(ParseTarget("dns:///orders:1")->path, "orders:1");
  EXPECT_EQ(ParseTarget("dns:///orders:1")->authority, "");
  EXPECT_EQ(ParseTarget("ipv4:10.0.0.1:1,10.0.0.2:2")->path,
            "10.0.0.1:1,10.0.0.2:2");
  EXPECT_EQ(ParseTarget("file:///etc/orders.json")->path, "etc/orders.json");
}

TEST(TargetTest, AnAddressMayLookLikeAUri) {
  EXPECT_EQ(ParseTarget("localhost:7471")->scheme, "localhost");
}

TEST(TargetTest, OtherTextsHaveNoScheme) {
  for (const char* text :
       {"", ":", "orders", "10.0.0.1:7471", "[::1]:7471", ":7471", "a_b:1"}) {
    EXPECT_FALSE(ParseTarget(text).has_value()) << text;
  }
}

TEST(TargetTest, MayEndAnywhere) {
  EXPECT_EQ(ParseTarget("dns:")->path, "");
  EXPECT_EQ(ParseTarget("dns://")->path, "");
  EXPECT_EQ(ParseTarget("dns://a")->authority, "a");
  EXPECT_EQ(ParseTarget("dns://a")->path, "");
}

TEST(TargetTest, AnAddressHasAHost) {
  EXPECT_EQ(HostOf("server.example:7471"), "server.example");
  EXPECT_EQ(HostOf("[fd00::7]:7471"), "fd00::7");
  EXPECT_EQ(HostOf("10.0.0.7:1"), "10.0.0.7");
  EXPECT_EQ(HostOf("server.example"), "server.example");
}

}  // namespace
}  // namespace verbena::internal
