#include "transport/verbs/completion_channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/verbs/completion_queue.h"
#include "transport/verbs/fake_verbs.h"

namespace verbena::transport {
namespace {

class CompletionChannelTest : public testing::Test {
 protected:
  FakeVerbs verbs_;
  CompletionChannel channel_ =
      *CompletionChannel::Create(verbs_.table(), verbs_.context());
  CompletionQueue cq_ = *CompletionQueue::Create(
      verbs_.table(), verbs_.context(), /*depth=*/1, &channel_);
};

TEST_F(CompletionChannelTest, DoesNotBlock) {
  EXPECT_NE(fcntl(channel_.fd(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_FALSE(*channel_.TakeEvent());
}

TEST_F(CompletionChannelTest, TakesAndAcknowledgesOneEvent) {
  ibv_cq* left = nullptr;
  void* context = nullptr;
  for (int i = 0; i < 2; ++i) verbs_.PushEvent(channel_.get(), cq_.get());
  EXPECT_TRUE(*channel_.TakeEvent());
  EXPECT_EQ(verbs_.unacked, 0);
  ASSERT_EQ(verbs_.table().get_cq_event(channel_.get(), &left, &context), 0);
  EXPECT_EQ(left, cq_.get());
  verbs_.table().ack_cq_events(left, 1);
  EXPECT_FALSE(*channel_.TakeEvent());
}

TEST_F(CompletionChannelTest, SaysWhyThereIsNone) {
  verbs_.make_error = EMFILE;
  EXPECT_EQ(CompletionChannel::Create(verbs_.table(), verbs_.context())
                .status()
                .code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace verbena::transport
