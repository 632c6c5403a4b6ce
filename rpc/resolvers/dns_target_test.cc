#include "rpc/resolvers/dns_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "rpc/internal/service/target.h"

namespace verbena::internal {
namespace {

using testing::HasSubstr;

DnsTarget Read(const std::string& text) {
  const auto target = ParseDnsTarget(*ParseTarget(text));
  EXPECT_TRUE(target.ok()) << target.status();
  return target.value_or(DnsTarget{});
}

std::string Error(const std::string& text) {
  const absl::Status status = ParseDnsTarget(*ParseTarget(text)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_THAT(status.message(), HasSubstr(text));
  return std::string(status.message());
}

TEST(DnsTargetTest, HasANameAndAPort) {
  for (const char* text :
       {"dns:///orders.example:7471", "dns:orders.example:7471"}) {
    const DnsTarget target = Read(text);
    EXPECT_EQ(target.name, "orders.example");
    EXPECT_EQ(target.port, 7471);
    EXPECT_EQ(target.server, "");
    EXPECT_FALSE(target.srv());
  }
  EXPECT_EQ(Read("dns:///a.:65535").name, "a.");
  EXPECT_EQ(Read("dns:///10.0.0.1:1").name, "10.0.0.1");
  EXPECT_EQ(Read("dns:///[fd00::1]:1").name, "fd00::1");
}

TEST(DnsTargetTest, NamesADnsServer) {
  EXPECT_EQ(Read("dns://10.0.0.53/a:1").server, "10.0.0.53:53");
  EXPECT_EQ(Read("dns://10.0.0.53:5353/a:1").server, "10.0.0.53:5353");
  EXPECT_EQ(Read("dns://[fd00::53]/a:1").server, "[fd00::53]:53");
  EXPECT_EQ(Read("dns://[fd00::53]:5353/a:1").server, "[fd00::53]:5353");
}

TEST(DnsTargetTest, WithoutAPortAsksForSrvRecords) {
  const DnsTarget target = Read("dns:///_orders._tcp.example");
  EXPECT_TRUE(target.srv());
  EXPECT_EQ(target.name, "_orders._tcp.example");
  EXPECT_FALSE(Read("dns:///_orders._tcp.example:1").srv());
}

TEST(DnsTargetTest, SaysThatThePortIsMissing) {
  EXPECT_THAT(Error("dns:///orders.example"),
              HasSubstr("has no port: it must be as "
                        "dns:///orders.example:7471, or "
                        "dns:///_orders._tcp.example"));
  EXPECT_THAT(Error("dns:///[fd00::1]"), HasSubstr("has no port"));
  EXPECT_THAT(Error("dns:///"), HasSubstr("has no port"));
}

TEST(DnsTargetTest, RefusesPortsThatAreNone) {
  for (const char* text : {"dns:///a:0", "dns:///a:65536", "dns:///a:x",
                           "dns:///a:", "dns:///a:-1"}) {
    EXPECT_THAT(Error(text), HasSubstr("1 to 65535"));
  }
}

TEST(DnsTargetTest, RefusesNamesThatAreNone) {
  const std::string label(64, 'a');
  std::string name(253, 'a');
  for (size_t i = 50; i < name.size(); i += 50) name[i] = '.';
  EXPECT_EQ(Read("dns:///" + name + ":1").name, name);
  for (const std::string& wrong :
       {std::string(), std::string("."), std::string("a..b"),
        std::string("a b"), std::string("a/b"), std::string("[10.0.0.1]"),
        std::string("fd00::1"), label, name + "a", std::string("a\0b", 3)}) {
    EXPECT_THAT(Error("dns:///" + wrong + ":1"), HasSubstr("the name"));
  }
}

TEST(DnsTargetTest, RefusesDnsServersThatAreNoAddress) {
  for (const char* text : {"dns://ns.example/a:1", "dns://10.0.0.53:0/a:1",
                           "dns://10.0.0.53:x/a:1", "dns://fd00::53/a:1"}) {
    EXPECT_THAT(Error(text), HasSubstr("must be an IP address"));
  }
}

}  // namespace
}  // namespace verbena::internal
