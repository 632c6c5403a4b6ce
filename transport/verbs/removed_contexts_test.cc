#include "transport/verbs/removed_contexts.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace verbena::transport {
namespace {

class RemovedContextsTest : public testing::Test {
 protected:
  RemovedContextsTest() {
    for (int i = 0; i < 2; ++i) {
      int ends[2];
      EXPECT_EQ(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
      (i == 0 ? context_.cmd_fd : context_.async_fd) = ends[1];
      kernel_[i] = ends[0];
    }
  }
  ~RemovedContextsTest() override {
    for (int fd :
         {context_.cmd_fd, context_.async_fd, kernel_[0], kernel_[1]}) {
      EXPECT_EQ(close(fd), 0);
    }
  }

  // Whether nothing has the device open any more.
  bool LetGo() const {
    char byte;
    return read(kernel_[0], &byte, 1) == 0 && read(kernel_[1], &byte, 1) == 0;
  }

  ibv_context context_ = {};
  int kernel_[2];
  RemovedContexts contexts_;
};

TEST_F(RemovedContextsTest, LetsGoAfterTheLastQueue) {
  contexts_.OnCqCreated(&context_);
  contexts_.OnCqCreated(&context_);
  contexts_.OnRemoved(&context_);
  contexts_.OnCqDestroyed(&context_);
  contexts_.OnRemoved(&context_);
  EXPECT_FALSE(LetGo());
  contexts_.OnCqDestroyed(&context_);
  EXPECT_TRUE(LetGo());
  // Ids that are still there hear of the removal, too.
  contexts_.OnRemoved(&context_);
  EXPECT_TRUE(LetGo());
}

TEST_F(RemovedContextsTest, LetsGoAtOnceIfThereIsNoQueue) {
  contexts_.OnRemoved(&context_);
  EXPECT_TRUE(LetGo());
}

TEST_F(RemovedContextsTest, KeepsADeviceThatIsThere) {
  contexts_.OnCqCreated(&context_);
  contexts_.OnCqDestroyed(&context_);
  EXPECT_FALSE(LetGo());
}

}  // namespace
}  // namespace verbena::transport
