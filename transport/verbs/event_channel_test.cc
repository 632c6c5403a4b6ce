#include "transport/verbs/event_channel.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <utility>

#include "transport/base/clock.h"
#include "transport/verbs/fake_cm.h"
#include "transport/verbs/system_provider.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;

class EventChannelTest : public testing::Test {
 protected:
  EventChannelTest() : channel_(*EventChannel::Create(FakeProvider())) {
    id_.channel = channel_.get();
  }

  FakeChannel& fake() { return FakeChannel::From(channel_.get()); }

  void Push(rdma_cm_event_type type) {
    rdma_cm_event event = {};
    event.id = &id_;
    event.event = type;
    fake().Push(event);
  }

  EventChannel channel_;
  FakeId id_;
};

TEST_F(EventChannelTest, SaysWhyThereIsNone) {
  const auto channel = EventChannel::Create(AbsentProvider());
  EXPECT_EQ(channel.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(channel.status().message(), HasSubstr("rdma_ucm"));
}

TEST_F(EventChannelTest, OpensOnTheSystemOrSaysWhyNot) {
  const auto channel = EventChannel::Create(SystemProvider());
  if (!channel.ok()) {
    EXPECT_THAT(channel.status().message(), HasSubstr("create_event_channel"));
  }
}

TEST_F(EventChannelTest, NeverBlocksAReader) {
  EXPECT_NE(::fcntl(channel_.fd(), F_GETFL) & O_NONBLOCK, 0);
  const auto event = channel_.Poll();
  ASSERT_TRUE(event.ok());
  EXPECT_FALSE(event->has_value());
}

TEST_F(EventChannelTest, AcknowledgesWhatItReturns) {
  Push(RDMA_CM_EVENT_ESTABLISHED);
  Push(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ((*channel_.Poll())->type, RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(fake().unacked, 0);
  EXPECT_EQ((*channel_.Poll())->type, RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(fake().unacked, 0);
  EXPECT_FALSE(channel_.Poll()->has_value());
}

TEST_F(EventChannelTest, ReportsFailure) {
  fake().error = EIO;
  const auto event = channel_.Poll();
  EXPECT_EQ(event.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(event.status().message(), HasSubstr("get_cm_event"));
}

TEST_F(EventChannelTest, WaitsNoLongerThanItShould) {
  const absl::Time start = base::Now();
  const auto event = channel_.WaitEvent(absl::Milliseconds(20));
  ASSERT_TRUE(event.ok());
  EXPECT_FALSE(event->has_value());
  EXPECT_GE(base::Now() - start, absl::Milliseconds(20));
}

TEST_F(EventChannelTest, WaitsNotAtAllForWhatIsThere) {
  Push(RDMA_CM_EVENT_ESTABLISHED);
  const auto event = channel_.WaitEvent(absl::InfiniteDuration());
  ASSERT_TRUE(event.ok() && event->has_value());
  EXPECT_EQ((*event)->id, &id_);
}

TEST_F(EventChannelTest, StaysTheSameWhenMoved) {
  rdma_event_channel* raw = channel_.get();
  EventChannel moved = std::move(channel_);
  EXPECT_EQ(moved.get(), raw);
  channel_ = std::move(moved);
  EXPECT_EQ(channel_.get(), raw);
}

}  // namespace
}  // namespace verbena::transport
