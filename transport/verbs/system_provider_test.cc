#include "transport/verbs/system_provider.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace verbena::transport {
namespace {

// A table holds pointers and nothing else, so it can be read as an array of
// them.
template <typename Table>
int NullEntries(const Table& table) {
  static_assert(sizeof(Table) % sizeof(void*) == 0);
  int nulls = 0;
  for (size_t i = 0; i < sizeof(Table); i += sizeof(void*)) {
    void* entry;
    std::memcpy(&entry, reinterpret_cast<const char*>(&table) + i,
                sizeof(entry));
    if (entry == nullptr) ++nulls;
  }
  return nulls;
}

TEST(SystemProviderTest, HasNoNullEntry) {
  EXPECT_EQ(NullEntries(SystemProvider().verbs), 0);
  EXPECT_EQ(NullEntries(SystemProvider().cm), 0);
}

TEST(SystemProviderTest, IsNamed) {
  EXPECT_EQ(std::string(SystemProvider().name), "system");
}

TEST(SystemProviderTest, ListsDevicesOrSaysWhyNot) {
  const VerbsOps& verbs = SystemProvider().verbs;
  errno = 0;
  int count = -1;
  ibv_device** devices = verbs.get_device_list(&count);
  if (devices == nullptr) {
    EXPECT_NE(errno, 0);
    return;
  }
  ASSERT_GE(count, 0);
  for (int i = 0; i < count; ++i) {
    EXPECT_NE(std::string(verbs.get_device_name(devices[i])), "");
  }
  EXPECT_EQ(devices[count], nullptr);
  verbs.free_device_list(devices);
}

TEST(SystemProviderTest, OpensAnEventChannelOrSaysWhyNot) {
  const CmOps& cm = SystemProvider().cm;
  errno = 0;
  rdma_event_channel* channel = cm.create_event_channel();
  if (channel == nullptr) {
    EXPECT_NE(errno, 0);
    return;
  }
  EXPECT_GE(channel->fd, 0);
  cm.destroy_event_channel(channel);
}

}  // namespace
}  // namespace verbena::transport
