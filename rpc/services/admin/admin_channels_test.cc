#include "rpc/services/admin/admin_channels.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace verbena {
namespace {

std::string NamesOf(const AdminChannels& channels) {
  std::string names;
  for (const AdminChannels::Entry& each : channels.list().channels) {
    absl::StrAppend(&names, each.name, " ");
  }
  return names;
}

TEST(AdminChannels, HaveTheirNamesOrThoseOfTheirTargets) {
  AdminChannels channels;
  EXPECT_EQ(NamesOf(channels), "");
  channels.AddChannel(CreateChannel("host:1"));
  channels.AddChannel(CreateChannel("host:1"));
  channels.AddChannel(CreateChannel("host:1"), "mine");
  EXPECT_EQ(NamesOf(channels), "host:1 host:1#2 mine ");
  const AdminChannels::List list = channels.list();
  EXPECT_EQ(list.count, 3);
  EXPECT_EQ(list.channels[2].metrics.target, "host:1");
  EXPECT_EQ(list.channels[2].state, ChannelState::kIdle);
}

TEST(AdminChannels, KeepThemUntilTheyAreRemoved) {
  AdminChannels channels;
  const auto one = CreateChannel("one:1");
  const auto other = CreateChannel("other:1");
  channels.AddChannel(one);
  channels.AddChannel(one, "again");
  EXPECT_EQ(one.use_count(), 3);
  channels.RemoveChannel(other);
  EXPECT_EQ(NamesOf(channels), "again one:1 ");
  channels.RemoveChannel(one);
  EXPECT_EQ(NamesOf(channels), "");
  EXPECT_EQ(one.use_count(), 1);
}

TEST(AdminChannels, ListSoManyAndCountTheRest) {
  AdminChannels channels;
  const auto channel = CreateChannel("host:1");
  for (size_t i = 0; i <= AdminChannels::kMostListed; ++i) {
    channels.AddChannel(channel, absl::StrCat(1000 + i));
  }
  const AdminChannels::List list = channels.list();
  ASSERT_EQ(list.channels.size(), AdminChannels::kMostListed);
  EXPECT_EQ(list.channels.back().name, "1199");
  EXPECT_EQ(list.count, AdminChannels::kMostListed + 1);
}

// A channel ends where its last reference is dropped, and not on the thread of
// the page.
TEST(AdminChannels, AreNotHeldByWhoeverListsThem) {
  AdminChannels channels;
  for (int i = 0; i < 100; ++i) channels.AddChannel(CreateChannel("host:1"));
  std::atomic<bool> over = false;
  std::atomic<int> lists = 0;
  std::thread page([&] {
    for (; !over; ++lists) channels.list();
  });
  int held = 0;
  while (lists < 500) {
    const auto channel = CreateChannel("host:1");
    channels.AddChannel(channel);
    channels.RemoveChannel(channel);
    held += channel.use_count() == 1 ? 0 : 1;
  }
  over = true;
  page.join();
  EXPECT_EQ(held, 0);
}

}  // namespace
}  // namespace verbena
