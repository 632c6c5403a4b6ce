#include "transport/base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

namespace verbena::base {
namespace {

int NewDescriptor() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFdTest, OwnsNothingAtFirst) {
  UniqueFd fd;
  EXPECT_FALSE(fd.valid());
  EXPECT_EQ(fd.get(), -1);
  fd.Reset();
}

TEST(UniqueFdTest, ClosesWhatItOwns) {
  const int number = NewDescriptor();
  {
    const UniqueFd fd(number);
    EXPECT_TRUE(fd.valid());
    EXPECT_TRUE(IsOpen(number));
  }
  EXPECT_FALSE(IsOpen(number));
}

TEST(UniqueFdTest, MovesOwnership) {
  const int number = NewDescriptor();
  UniqueFd first(number);
  UniqueFd second = std::move(first);
  EXPECT_EQ(second.get(), number);
  const int other = NewDescriptor();
  second = UniqueFd(other);
  EXPECT_FALSE(IsOpen(number));
  EXPECT_TRUE(IsOpen(other));
}

TEST(UniqueFdTest, ReleasesWithoutClosing) {
  UniqueFd fd(NewDescriptor());
  const int number = fd.Release();
  EXPECT_FALSE(fd.valid());
  EXPECT_TRUE(IsOpen(number));
  ::close(number);
}

}  // namespace
}  // namespace verbena::base
