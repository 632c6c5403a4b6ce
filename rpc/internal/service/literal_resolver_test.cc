#include "rpc/internal/service/literal_resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "rpc/internal/service/target.h"

namespace verbena::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<std::vector<std::string>> Addresses(int family,
                                                   const char* text) {
  std::vector<std::string> addresses;
  absl::Status status;
  const auto resolver = LiteralResolvers(family).Create(
      *ParseTarget(text), [&](const absl::StatusOr<Resolved>& result) {
        for (const ServerAddress& server : result->servers) {
          addresses.push_back(server.address);
        }
      });
  if (!resolver.ok()) return resolver.status();
  return addresses;
}

TEST(LiteralResolverTest, GivesTheAddressesOfTheTarget) {
  EXPECT_THAT(*Addresses(AF_INET, "ipv4:10.0.0.1:7471,10.0.0.2:80"),
              ElementsAre("10.0.0.1:7471", "10.0.0.2:80"));
  EXPECT_THAT(*Addresses(AF_INET, "ipv4:///10.0.0.1:7471"),
              ElementsAre("10.0.0.1:7471"));
  EXPECT_THAT(*Addresses(AF_INET6, "ipv6:[fd00::1]:7471,[::1]:1"),
              ElementsAre("[fd00::1]:7471", "[::1]:1"));
}

TEST(LiteralResolverTest, RefusesWhatIsNoAddressWithAPort) {
  for (const char* text :
       {"ipv4:", "ipv4:10.0.0.1", "ipv4:10.0.0.1:0", "ipv4:10.0.0.1:70000",
        "ipv4:10.0.0.1:1,", "ipv4:localhost:1", "ipv4:[10.0.0.1]:1"}) {
    const auto addresses = Addresses(AF_INET, text);
    EXPECT_EQ(addresses.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_FALSE(Addresses(AF_INET6, "ipv6:fd00::1:7471").ok());
  EXPECT_THAT(Addresses(AF_INET, "ipv4:10.0.0.1:1,ten:2").status().message(),
              HasSubstr("\"ten:2\""));
}

}  // namespace
}  // namespace verbena::internal
