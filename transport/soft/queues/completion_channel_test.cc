#include "transport/soft/queues/completion_channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "transport/base/unique_fd.h"
#include "transport/soft/base/event_queue.h"
#include "transport/soft/queues/completion_queue.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

// How many of the next rings are refused, as by a bell that is full.
std::atomic<int> refusals{0};

}  // namespace
}  // namespace verbena::soft

// Takes the place of libc's function.
extern "C" ssize_t sendto(int fd, const void* bytes, size_t count, int flags,
                          const sockaddr* to, socklen_t to_length) {
  if (verbena::soft::refusals.load() > 0) {
    --verbena::soft::refusals;
    errno = EAGAIN;
    return -1;
  }
  return syscall(SYS_sendto, fd, bytes, count, flags, to, to_length);
}

namespace verbena::soft {
namespace {

// A channel with one completion queue, and a stranger who knows its name, which
// every process of the host can read in /proc/net/unix.
class CompletionChannelTest : public testing::Test {
 protected:
  static TestEndOptions WithChannel() {
    TestEndOptions options;
    options.with_channel = true;
    return options;
  }

  CompletionChannelTest()
      : stranger_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    fcntl(end_.channel->fd, F_SETFL, O_NONBLOCK);
    EXPECT_EQ(getsockname(BellFd(), reinterpret_cast<sockaddr*>(&name_),
                          &name_length_),
              0);
  }

  int BellFd() const {
    return CompletionChannel::From(end_.channel)->bell_fd_for_testing();
  }
  bool SendGarbage(size_t bytes) const {
    static constexpr char kGarbage[64] = {};
    return sendto(stranger_.get(), kGarbage, bytes, MSG_DONTWAIT,
                  reinterpret_cast<const sockaddr*>(&name_),
                  name_length_) == static_cast<ssize_t>(bytes);
  }
  void Raise() { events_.Raise({&source_, end_.cq, 0}); }
  // Sleeps until there is an event, and takes it.
  bool Take() {
    EventQueue::Event event;
    while (!events_.Get(event)) {
      pollfd waiting = {end_.channel->fd, POLLIN, 0};
      if (poll(&waiting, 1, 10000) != 1) return false;
    }
    EXPECT_EQ(event.source, &source_);
    events_.Acknowledge(source_, 1);
    return true;
  }

  TestEnd end_{WithChannel()};
  EventQueue& events_ = CompletionChannel::From(end_.channel)->events();
  EventQueue::Source source_;
  base::UniqueFd stranger_;
  sockaddr_un name_ = {};
  socklen_t name_length_ = sizeof(name_);
};

TEST_F(CompletionChannelTest, GarbageHidesNoEvent) {
  for (const size_t bytes : {0, 1, 16, 64}) {
    while (SendGarbage(bytes)) {
    }
    Raise();
    EXPECT_TRUE(Take());
  }
}

// The bell was full, but nothing is in it any more by the time that its owner
// learns of that.
TEST_F(CompletionChannelTest, ABellThatIsEmptiedMeanwhileIsRungAgain) {
  refusals = 1;
  Raise();
  EXPECT_TRUE(Take());
}

TEST_F(CompletionChannelTest, WhoeverTakesGarbageGivesTheSignalThatIsOwed) {
  ASSERT_TRUE(SendGarbage(1));
  refusals = 2;
  Raise();
  EXPECT_TRUE(Take());
}

// The room of the bell is made so small that it is full most of the time.
TEST_F(CompletionChannelTest, NoEventIsLostWhenTheBellIsFull) {
  constexpr int kEvents = 20000;
  const int small = 1;
  ASSERT_EQ(setsockopt(BellFd(), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)),
            0);
  std::atomic<bool> over{false};
  std::thread raises([this] {
    for (int i = 0; i < kEvents; ++i) Raise();
  });
  std::thread disturbs([this, &over] {
    while (!over.load()) SendGarbage(1);
  });
  int taken = 0;
  while (taken < kEvents && Take()) ++taken;
  EXPECT_EQ(taken, kEvents);
  over.store(true);
  raises.join();
  disturbs.join();
}

}  // namespace
}  // namespace verbena::soft
