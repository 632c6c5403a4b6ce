#include "transport/soft/queues/stream_watch.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "transport/base/unique_fd.h"

namespace verbena::soft {
namespace {

class StreamWatchTest : public testing::Test {
 protected:
  StreamWatchTest() {
    int sockets[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    own = base::UniqueFd(sockets[0]);
    peer = base::UniqueFd(sockets[1]);
    EXPECT_EQ(watch.Add(qp, own.get()), 0);
  }
  bool Ready() {
    const auto found = watch.Look(ready);
    EXPECT_TRUE(found.empty() || found[0] == qp);
    return !found.empty();
  }

  // Is not looked at.
  QueuePair* const qp = reinterpret_cast<QueuePair*>(this);
  base::UniqueFd own;
  base::UniqueFd peer;
  StreamWatch watch;
  StreamWatch::Ready ready;
};

TEST_F(StreamWatchTest, TellsWhatIsWanted) {
  EXPECT_FALSE(Ready());
  watch.SetInterest(qp, own.get(), false, true);
  EXPECT_TRUE(Ready());
  watch.SetInterest(qp, own.get(), true, false);
  EXPECT_FALSE(Ready());
  ASSERT_EQ(::send(peer.get(), "x", 1, 0), 1);
  EXPECT_TRUE(Ready());
}

TEST_F(StreamWatchTest, AConnectionThatHasEndedIsNotReadyIfNothingIsWanted) {
  peer.Reset();
  EXPECT_TRUE(Ready());
  watch.SetInterest(qp, own.get(), false, false);
  EXPECT_FALSE(Ready());
  watch.SetInterest(qp, own.get(), true, false);
  EXPECT_TRUE(Ready());
}

TEST_F(StreamWatchTest, RemovesASocketOfWhichNothingIsWanted) {
  watch.SetInterest(qp, own.get(), false, false);
  EXPECT_EQ(watch.count(), 1u);
  watch.Remove(own.get());
  EXPECT_EQ(watch.count(), 0u);
}

}  // namespace
}  // namespace verbena::soft
