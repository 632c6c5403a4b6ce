#include "rpc/internal/service/subset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace verbena::internal {
namespace {

std::vector<ServerAddress> Servers(int count) {
  std::vector<ServerAddress> servers;
  for (int i = 0; i < count; ++i) {
    servers.push_back(
        {.address = absl::StrCat("10.0.", i / 250, ".", i % 250 + 1, ":7471")});
  }
  return servers;
}

std::set<std::string> Chosen(size_t size, uint64_t seed,
                             std::vector<ServerAddress> servers) {
  ChooseSubset(size, seed, &servers);
  std::set<std::string> chosen;
  for (const ServerAddress& server : servers) chosen.insert(server.address);
  return chosen;
}

TEST(SubsetTest, LeavesAllWhereThereAreNotMore) {
  EXPECT_EQ(Chosen(20, 1, Servers(20)).size(), 20);
  EXPECT_EQ(Chosen(0, 1, Servers(1000)).size(), 1000);
}

TEST(SubsetTest, DoesNotDependOnTheOrder) {
  std::vector<ServerAddress> reversed = Servers(1000);
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_EQ(Chosen(20, 7, Servers(1000)), Chosen(20, 7, reversed));
}

TEST(SubsetTest, ChangesOnePlaceAtMostWhenAServerLeaves) {
  const std::set<std::string> before = Chosen(20, 7, Servers(1000));
  for (int gone = 0; gone < 1000; gone += 50) {
    std::vector<ServerAddress> servers = Servers(1000);
    servers.erase(servers.begin() + gone);
    std::vector<std::string> left;
    const std::set<std::string> after = Chosen(20, 7, servers);
    std::set_difference(before.begin(), before.end(), after.begin(),
                        after.end(), std::back_inserter(left));
    EXPECT_LE(left.size(), 1);
  }
}

TEST(SubsetTest, GivesEachServerAboutAsManyClients) {
  std::map<std::string, int> clients;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    for (const std::string& address : Chosen(20, seed, Servers(100))) {
      ++clients[address];
    }
  }
  EXPECT_EQ(clients.size(), 100);
  // The mean is 400, and a standard deviation 18.
  for (const auto& [address, count] : clients) {
    EXPECT_NEAR(count, 400, 100) << address;
  }
}

}  // namespace
}  // namespace verbena::internal
