// Waiting calls and signals: a signal ends a wait if it would end a read(2).

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "absl/functional/function_ref.h"
#include "tests/conformance/cm_end.h"
#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

std::atomic<int> signals_handled{0};  // Signal handlers have no argument.

void CountSignal(int) { ++signals_handled; }

class SignalsTest : public testing::Test {
 protected:
  ~SignalsTest() override { sigaction(SIGUSR1, &before_, nullptr); }

  void Handle(int flags) {
    struct sigaction action = {};
    action.sa_handler = CountSignal;
    action.sa_flags = flags;
    sigaction(SIGUSR1, &action, &before_);
  }

  // Sends signals to this thread until `wait` returns; its result.
  int Interrupt(absl::FunctionRef<int()> wait) {
    Handle(0);
    std::atomic<bool> over{false};
    std::thread sender([&, waiting = pthread_self()] {
      while (!over) {
        pthread_kill(waiting, SIGUSR1);
        std::this_thread::yield();
      }
    });
    errno = 0;
    const int result = wait();
    const int error = errno;
    over = true;
    sender.join();
    errno = error;
    return result;
  }

  // Calls `wait`; meanwhile some signals come, and then what `happen` does.
  int Restart(absl::FunctionRef<int()> wait, absl::FunctionRef<void()> happen) {
    Handle(SA_RESTART);
    const int before = signals_handled;
    std::thread sender([&, waiting = pthread_self()] {
      for (int i = 0; i < 1000 && signals_handled < before + 3; ++i) {
        pthread_kill(waiting, SIGUSR1);
        std::this_thread::yield();
      }
      happen();
    });
    const int result = wait();
    sender.join();
    return result;
  }

  EndOptions WithChannel() {
    EndOptions options;
    options.with_channel = true;
    return options;
  }

 private:
  struct sigaction before_ = {};
};

TEST_F(SignalsTest, ASignalEndsTheWaitForACompletionEvent) {
  End end(WithChannel());
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  EXPECT_EQ(Interrupt([&] {
              return Verbs().get_cq_event(end.channel, &cq, &context);
            }),
            -1);
  EXPECT_EQ(errno, EINTR);
}

TEST_F(SignalsTest, ASignalEndsTheWaitForAnAsynchronousEvent) {
  End end;
  ibv_async_event event = {};
  EXPECT_EQ(
      Interrupt([&] { return Verbs().get_async_event(end.context, &event); }),
      -1);
  EXPECT_EQ(errno, EINTR);
}

TEST_F(SignalsTest, ASignalEndsTheWaitForAConnectionEvent) {
  rdma_event_channel* const channel = Cm().create_event_channel();
  ASSERT_NE(channel, nullptr);
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(Interrupt([&] { return Cm().get_cm_event(channel, &event); }), -1);
  EXPECT_EQ(errno, EINTR);
  Cm().destroy_event_channel(channel);
}

TEST_F(SignalsTest, AWaitForACompletionEventGoesOnIfThatIsAskedFor) {
  End a;
  End b(WithChannel());
  Connect(a, b);
  ASSERT_EQ(b.Receive(1, 0, 8), 0);
  ASSERT_EQ(ibv_req_notify_cq(b.cq, 0), 0);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  ASSERT_EQ(
      Restart([&] { return Verbs().get_cq_event(b.channel, &cq, &context); },
              [&] { EXPECT_EQ(a.Send(2, 0, 8), 0); }),
      0)
      << "errno " << errno;
  Verbs().ack_cq_events(cq, 1);
  EXPECT_EQ(b.Outcome(1), IBV_WC_SUCCESS);
}

TEST_F(SignalsTest, AWaitForAConnectionEventGoesOnIfThatIsAskedFor) {
  CmEnd server;
  const uint16_t port = server.Listen();
  CmEnd client;
  client.CreateId();
  const int flags = fcntl(client.channel->fd, F_GETFL);
  fcntl(client.channel->fd, F_SETFL, flags & ~O_NONBLOCK);
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(Restart([&] { return Cm().get_cm_event(client.channel, &event); },
                    [&] { EXPECT_EQ(client.ResolveAddr(port), 0); }),
            0)
      << "errno " << errno;
  EXPECT_EQ(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
  Cm().ack_cm_event(event);
}

}  // namespace
}  // namespace verbena::conformance
