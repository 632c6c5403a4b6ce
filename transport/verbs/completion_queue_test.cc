#include "transport/verbs/completion_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "transport/verbs/completion_channel.h"
#include "transport/verbs/fake_verbs.h"

namespace verbena::transport {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class CompletionQueueTest : public testing::Test {
 protected:
  absl::StatusOr<CompletionQueue> Make(CompletionChannel* channel = nullptr) {
    return CompletionQueue::Create(verbs_.table(), verbs_.context(),
                                   /*depth=*/100, channel);
  }

  FakeVerbs verbs_;
};

TEST_F(CompletionQueueTest, IsMadeWithOrWithoutAChannel) {
  ASSERT_TRUE(Make().ok());
  EXPECT_THAT(verbs_.calls, Contains("create_cq 100 alone"));
  CompletionChannel channel =
      *CompletionChannel::Create(verbs_.table(), verbs_.context());
  ASSERT_TRUE(Make(&channel).ok());
  EXPECT_THAT(verbs_.calls, Contains("create_cq 100 channel"));
}

TEST_F(CompletionQueueTest, HandsOutCompletionsOldestFirst) {
  CompletionQueue cq = *Make();
  for (uint64_t id : {1, 2, 3}) {
    ibv_wc completion = {};
    completion.wr_id = id;
    verbs_.completions.push_back(completion);
  }
  std::array<ibv_wc, 2> batch;
  EXPECT_EQ(cq.Poll(absl::MakeSpan(batch)), 2);
  EXPECT_EQ(batch[0].wr_id, 1u);
  EXPECT_EQ(batch[1].wr_id, 2u);
  EXPECT_EQ(cq.Poll(absl::MakeSpan(batch)), 1);
  EXPECT_EQ(batch[0].wr_id, 3u);
  EXPECT_EQ(cq.Poll(absl::MakeSpan(batch)), 0);
}

TEST_F(CompletionQueueTest, AsksForEventsOfAllCompletions) {
  CompletionQueue cq = *Make();
  EXPECT_TRUE(cq.RequestNotify().ok());
  EXPECT_EQ(verbs_.armed, 1);
  verbs_.notify_error = EIO;
  EXPECT_EQ(cq.RequestNotify().code(), absl::StatusCode::kUnavailable);
}

TEST_F(CompletionQueueTest, SaysWhyThereIsNone) {
  verbs_.make_error = EINVAL;
  const absl::Status status = Make().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("create_cq depth 100"));
}

}  // namespace
}  // namespace verbena::transport
