#include "transport/soft/base/live_handles.h"

#include <gtest/gtest.h>

#include <optional>

namespace verbena::soft {
namespace {

TEST(LiveHandlesTest, AHandleIsLiveAsLongAsItsObject) {
  const int object = 0;
  EXPECT_FALSE(IsLive(&object));
  std::optional<LiveHandle<int>> live(&object);
  EXPECT_TRUE(IsLive(&object));
  live.reset();
  EXPECT_FALSE(IsLive(&object));
}

TEST(LiveHandlesTest, ItIsOfItsTypeAlone) {
  const long object = 0;
  const LiveHandle<long> live(&object);
  EXPECT_FALSE(IsLive(reinterpret_cast<const char*>(&object)));
  EXPECT_FALSE(IsLive<long>(nullptr));
  EXPECT_FALSE(IsLive(reinterpret_cast<const long*>(1)));
}

}  // namespace
}  // namespace verbena::soft
