#include "transport/soft/remote/lingering_relays.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace verbena::soft {
namespace {

TEST(LingeringRelaysTest, TheOldestEndsWhenThereAreTooMany) {
  LingeringRelays relays;
  std::vector<size_t> ended;
  std::vector<uint64_t> names(LingeringRelays::kMax + 2);
  for (size_t i = 0; i < names.size(); ++i) {
    names[i] = relays.Add([&, i] {
      ended.push_back(i);
      relays.Remove(names[i]);
    });
  }
  EXPECT_EQ(ended, (std::vector<size_t>{0, 1}));
}

TEST(LingeringRelaysTest, WhoAwaitsThemWaitsForAllThatHaveNotSent) {
  LingeringRelays relays;
  const uint64_t one = relays.Add([] {});
  const uint64_t other = relays.Add([] {});
  std::thread sender([&] {
    relays.NoteSent(one);
    relays.Remove(other);
  });
  relays.AwaitSent(std::chrono::hours(1));
  sender.join();
}

TEST(LingeringRelaysTest, NobodyAwaitsThemLongerThanHeSaid) {
  LingeringRelays relays;
  relays.Add([] {});
  relays.AwaitSent(std::chrono::milliseconds(1));
  relays.AwaitSent(std::chrono::milliseconds(-1));
}

}  // namespace
}  // namespace verbena::soft
