#include "transport/soft/base/waiter_bell.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <thread>

namespace verbena::soft {
namespace {

bool Readable(int fd) {
  pollfd waiting = {fd, POLLIN, 0};
  return poll(&waiting, 1, 0) == 1;
}

class WaiterBellTest : public testing::Test {
 protected:
  WaiterBellTest() { fcntl(bell_->fd(), F_SETFL, O_NONBLOCK); }

  const std::unique_ptr<WaiterBell> bell_ = WaiterBell::Create();
};

TEST_F(WaiterBellTest, SaysWhoRang) {
  EXPECT_FALSE(Readable(bell_->fd()));
  ASSERT_TRUE(WaiterBell::RingByName(bell_->name(), {7, 8}));
  EXPECT_TRUE(Readable(bell_->fd()));
  WaiterBell::Ring ring;
  ASSERT_TRUE(bell_->Take(ring));
  EXPECT_EQ(ring.secret, 7u);
  EXPECT_EQ(ring.number, 8u);
  EXPECT_FALSE(bell_->Take(ring));
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(WaiterBellTest, ItsOwnerRingsWithoutAName) {
  ASSERT_TRUE(bell_->RingOwn());
  WaiterBell::Ring ring = {1, 1};
  ASSERT_TRUE(bell_->Take(ring));
  EXPECT_EQ(ring.secret, 0u);
  EXPECT_EQ(ring.number, 0u);
}

TEST_F(WaiterBellTest, WakesAThreadThatWaits) {
  fcntl(bell_->fd(), F_SETFL, 0);
  WaiterBell::Ring ring;
  std::thread waiter([&] { ASSERT_TRUE(bell_->Take(ring)); });
  EXPECT_TRUE(WaiterBell::RingByName(bell_->name(), {0, 5}));
  waiter.join();
  EXPECT_EQ(ring.number, 5u);
}

TEST_F(WaiterBellTest, RefusesWhatItCannotHold) {
  int rings = 0;
  while (WaiterBell::RingByName(bell_->name(), {0, 1})) ++rings;
  EXPECT_GT(rings, 0);
  WaiterBell::Ring ring;
  ASSERT_TRUE(bell_->Take(ring));
  EXPECT_TRUE(WaiterBell::RingByName(bell_->name(), {0, 1}));
}

TEST_F(WaiterBellTest, NobodyHearsAnUnknownName) {
  EXPECT_FALSE(WaiterBell::RingByName({1, 2}, {0, 1}));
}

}  // namespace
}  // namespace verbena::soft
