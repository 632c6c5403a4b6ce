#include "transport/verbs/verbs_handle.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <utility>

#include "transport/verbs/fake_verbs.h"

namespace verbena::transport {
namespace {

using Handle = VerbsHandle<ibv_pd, &VerbsOps::dealloc_pd>;

class VerbsHandleTest : public testing::Test {
 protected:
  Handle Make() {
    return Handle(verbs_.table(), verbs_.table().alloc_pd(verbs_.context()));
  }

  FakeVerbs verbs_;
};

TEST_F(VerbsHandleTest, DestroysWhatItOwns) {
  {
    const Handle handle = Make();
    EXPECT_NE(handle.get(), nullptr);
    EXPECT_FALSE(verbs_.empty());
  }
  EXPECT_TRUE(verbs_.empty());
}

TEST_F(VerbsHandleTest, OwnsNothingUntilItIsGivenSomething) {
  Handle handle;
  EXPECT_EQ(handle.get(), nullptr);
  handle = Make();
  EXPECT_NE(handle.get(), nullptr);
  EXPECT_EQ(&handle.ops(), &verbs_.table());
}

TEST_F(VerbsHandleTest, LeavesNothingBehindWhenItMoves) {
  Handle first = Make();
  ibv_pd* const object = first.get();
  const Handle second = std::move(first);
  EXPECT_EQ(first.get(), nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(second.get(), object);
}

TEST_F(VerbsHandleTest, DestroysWhatItHadWhenItIsAssigned) {
  Handle handle = Make();
  handle = Make();
  EXPECT_EQ(verbs_.calls.size(), 2u);
  handle = Handle();
  EXPECT_TRUE(verbs_.empty());
}

TEST_F(VerbsHandleTest, SurvivesAssignmentToItself) {
  Handle handle = Make();
  Handle& same = handle;
  handle = std::move(same);
  EXPECT_NE(handle.get(), nullptr);
  EXPECT_FALSE(verbs_.empty());
}

TEST_F(VerbsHandleTest, LetsGoOfWhatHasGoneWithItsDevice) {
  {
    const Handle handle = Make();
    verbs_.destroy_error = EIO;
  }
  EXPECT_TRUE(verbs_.empty());
}

TEST(VerbsHandleDeathTest, AbortsWhenTheDeviceStillUsesTheObject) {
  EXPECT_DEATH(
      {
        FakeVerbs verbs;
        const Handle handle(verbs.table(),
                            verbs.table().alloc_pd(verbs.context()));
        verbs.destroy_error = EBUSY;
      },
      "destroyed while in use: Device or resource busy");
}

}  // namespace
}  // namespace verbena::transport
