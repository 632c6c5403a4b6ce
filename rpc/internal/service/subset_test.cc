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

std::set<std::string> Dealt(uint64_t number,
                            std::vector<ServerAddress> servers) {
  ChooseNumberedSubset(20, number, &servers);
  std::set<std::string> chosen;
  for (const ServerAddress& server : servers) chosen.insert(server.address);
  return chosen;
}

TEST(NumberedSubsetTest, GivesEachServerAsManyClientsToWithinOne) {
  for (const int servers : {21, 40, 41, 105, 1000}) {
    std::map<std::string, int> clients;
    for (const ServerAddress& server : Servers(servers)) {
      clients[server.address] = 0;
    }
    for (uint64_t number = 0; number < 300; ++number) {
      const std::set<std::string> chosen = Dealt(number, Servers(servers));
      EXPECT_GE(chosen.size(), 10u);
      EXPECT_LE(chosen.size(), 20u);
      for (const std::string& address : chosen) ++clients[address];
      const auto [least, most] = std::minmax_element(
          clients.begin(), clients.end(),
          [](const auto& a, const auto& b) { return a.second < b.second; });
      ASSERT_LE(most->second - least->second, 1)
          << servers << " servers, " << number + 1 << " clients";
    }
  }
}

TEST(NumberedSubsetTest, ChangesTwoPlacesAtMostWhenAServerLeaves) {
  for (uint64_t number = 0; number < 50; ++number) {
    const std::set<std::string> before = Dealt(number, Servers(100));
    for (int gone = 0; gone < 100; ++gone) {
      std::vector<ServerAddress> servers = Servers(100);
      servers.erase(servers.begin() + gone);
      std::vector<std::string> left;
      const std::set<std::string> after = Dealt(number, servers);
      std::set_difference(before.begin(), before.end(), after.begin(),
                          after.end(), std::back_inserter(left));
      EXPECT_LE(left.size(), 2);
    }
  }
}

TEST(NumberedSubsetTest, LeavesEachClientOneServerAtLeast) {
  for (uint64_t number = 0; number < 20; ++number) {
    std::vector<ServerAddress> servers = Servers(5);
    ChooseNumberedSubset(1, number, &servers);
    EXPECT_EQ(servers.size(), 1);
  }
}

TEST(NumberedSubsetTest, LeavesAllWhereThereAreNotMore) {
  EXPECT_EQ(Dealt(7, Servers(20)).size(), 20);
}

}  // namespace
}  // namespace verbena::internal
