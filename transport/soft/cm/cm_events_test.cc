#include "transport/soft/cm/cm_events.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <future>
#include <memory>

namespace verbena::soft {
namespace {

constexpr rdma_cm_event_type kType = RDMA_CM_EVENT_ADDR_RESOLVED;

class CmEventsTest : public testing::Test {
 protected:
  CmEventsTest() {
    events_.Add(*one_, *channel_);
    events_.Add(*two_, *channel_);
  }
  ~CmEventsTest() override {
    for (const auto& endpoint : {one_, two_}) events_.Remove(*endpoint);
  }

  static std::unique_ptr<CmChannel> MakeChannel() {
    std::unique_ptr<CmChannel> channel = CmChannel::Create(nullptr);
    EXPECT_EQ(::fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    return channel;
  }

  // The oldest event of the channel; null when there is none.
  CmEventRecord* Read(CmChannel& channel) {
    rdma_cm_event* event = nullptr;
    const int error = events_.Get(channel, event);
    EXPECT_EQ(error, event == nullptr ? EAGAIN : 0);
    return event == nullptr ? nullptr : CmEventRecord::From(event);
  }

  // Reads the oldest event and acknowledges it. Returns its status, or -1 when
  // there was none.
  int Take(CmChannel& channel) {
    CmEventRecord* event = Read(channel);
    if (event == nullptr) return -1;
    const int status = event->status;
    events_.Ack(event);
    return status;
  }

  static bool Readable(const CmChannel& channel) {
    pollfd descriptor = {.fd = channel.fd, .events = POLLIN, .revents = 0};
    return ::poll(&descriptor, 1, 0) == 1;
  }

  // Posts an endpoint that was born of a request to one_. Nobody else holds it.
  std::weak_ptr<CmEndpoint> PostRequest() {
    auto child = std::make_shared<CmEndpoint>();
    std::weak_ptr<CmEndpoint> weak = child;
    events_.PostRequest(
        *one_, std::move(child),
        std::make_unique<CmEventRecord>(RDMA_CM_EVENT_CONNECT_REQUEST));
    return weak;
  }

  CmEvents events_;
  const std::unique_ptr<CmChannel> channel_ = MakeChannel();
  const std::unique_ptr<CmChannel> other_channel_ = MakeChannel();
  const std::shared_ptr<CmEndpoint> one_ = std::make_shared<CmEndpoint>();
  const std::shared_ptr<CmEndpoint> two_ = std::make_shared<CmEndpoint>();
};

TEST_F(CmEventsTest, AnIdentifierMayOutliveItsBlockingChannel) {
  std::unique_ptr<CmChannel> blocking = CmChannel::Create(nullptr);
  const auto endpoint = std::make_shared<CmEndpoint>();
  events_.Add(*endpoint, *blocking);
  events_.DestroyChannel(std::move(blocking));
  events_.Post(*endpoint, std::make_unique<CmEventRecord>(kType));
  events_.Remove(*endpoint);
  EXPECT_EQ(endpoint.use_count(), 1);
}

TEST_F(CmEventsTest, AChannelIsReadableAsLongAsThereIsAnEvent) {
  EXPECT_FALSE(Readable(*channel_));
  events_.Post(*one_, kType, 1);
  events_.Post(*one_, kType, 2);
  EXPECT_TRUE(Readable(*channel_));
  EXPECT_EQ(Take(*channel_), 1);
  EXPECT_TRUE(Readable(*channel_));
  EXPECT_EQ(Take(*channel_), 2);
  EXPECT_FALSE(Readable(*channel_));
  EXPECT_EQ(Take(*channel_), -1);
}

TEST_F(CmEventsTest, RemovesTheEventsOfOneEndpoint) {
  events_.Post(*one_, kType, 1);
  events_.Post(*two_, kType, 2);
  events_.Post(*one_, kType, 3);
  EXPECT_TRUE(events_.Remove(*one_).empty());
  EXPECT_TRUE(Readable(*channel_));
  EXPECT_EQ(Take(*channel_), 2);
  EXPECT_FALSE(Readable(*channel_));
  events_.Post(*two_, kType, 4);
  events_.Remove(*two_);
  EXPECT_FALSE(Readable(*channel_));
}

TEST_F(CmEventsTest, ARequestThatIsReadBelongsToTheUser) {
  const std::weak_ptr<CmEndpoint> child = PostRequest();
  EXPECT_EQ(events_.UnreadRequests(*one_), 1);
  CmEventRecord* event = Read(*channel_);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->id, child.lock().get());
  EXPECT_EQ(event->listen_id, one_.get());
  EXPECT_EQ(event->id->channel, channel_.get());
  EXPECT_EQ(events_.UnreadRequests(*one_), 0);
  events_.Ack(event);
  ASSERT_FALSE(child.expired());
  events_.Remove(*child.lock());
  EXPECT_TRUE(child.expired());
}

TEST_F(CmEventsTest, ARequestThatNobodyReadComesBackFromItsListener) {
  const std::weak_ptr<CmEndpoint> child = PostRequest();
  const auto orphans = events_.Remove(*one_);
  ASSERT_EQ(orphans.size(), 1u);
  EXPECT_EQ(orphans[0], child.lock());
}

TEST_F(CmEventsTest, MigratesWhenWhatWasReadIsAcknowledged) {
  events_.Post(*one_, kType, 1);
  events_.Post(*one_, kType, 2);
  PostRequest();
  CmEventRecord* read = Read(*channel_);
  ASSERT_NE(read, nullptr);
  auto migrated = std::async(std::launch::async,
                             [&] { events_.Migrate(*one_, *other_channel_); });
  events_.Ack(read);
  migrated.get();
  events_.Post(*one_, kType, 3);
  EXPECT_FALSE(Readable(*channel_));
  EXPECT_EQ(Take(*other_channel_), 2);
  CmEventRecord* request = Read(*other_channel_);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->id->channel, other_channel_.get());
  events_.Remove(*request->child);
  events_.Ack(request);
  EXPECT_EQ(Take(*other_channel_), 3);
}

}  // namespace
}  // namespace verbena::soft
