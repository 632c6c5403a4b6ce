#include "transport/session/call_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "transport/client/client_call.h"

namespace verbena::transport {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct IdleCall final : ClientCall {
  void WriteRequest(uint8_t* /*out*/) override {}
  void OnResponse(const CallResponse& /*response*/) override {}
  void OnFailed(const absl::Status& /*status*/) override {}
};

class CallQueueTest : public testing::Test {
 protected:
  std::vector<const ClientCall*> Calls() const {
    std::vector<const ClientCall*> calls;
    for (const ClientCall* call = queue_.front(); call != nullptr;
         call = CallQueue<ClientCall>::Next(call)) {
      calls.push_back(call);
    }
    EXPECT_EQ(queue_.size(), calls.size());
    EXPECT_EQ(queue_.empty(), calls.empty());
    return calls;
  }

  CallQueue<ClientCall> queue_;
  IdleCall a_, b_, c_;
};

TEST_F(CallQueueTest, KeepsTheOrderOfArrival) {
  EXPECT_THAT(Calls(), IsEmpty());
  queue_.PushBack(&a_);
  queue_.PushBack(&b_);
  queue_.PushBack(&c_);
  EXPECT_THAT(Calls(), ElementsAre(&a_, &b_, &c_));
}

TEST_F(CallQueueTest, TakesBackWhoWasFirst) {
  queue_.PushFront(&b_);
  queue_.PushFront(&a_);
  queue_.PushBack(&c_);
  EXPECT_THAT(Calls(), ElementsAre(&a_, &b_, &c_));
}

TEST_F(CallQueueTest, LetsGoOfAnyCall) {
  for (IdleCall* call : {&a_, &b_, &c_}) queue_.PushBack(call);
  queue_.Remove(&b_);
  EXPECT_THAT(Calls(), ElementsAre(&a_, &c_));
  queue_.Remove(&c_);
  EXPECT_THAT(Calls(), ElementsAre(&a_));
  queue_.Remove(&a_);
  EXPECT_THAT(Calls(), IsEmpty());
}

TEST_F(CallQueueTest, TakesACallAgainAfterItWasRemoved) {
  queue_.PushBack(&a_);
  queue_.PushBack(&b_);
  queue_.Remove(&a_);
  queue_.PushBack(&a_);
  EXPECT_THAT(Calls(), ElementsAre(&b_, &a_));
  queue_.Remove(&b_);
  queue_.PushFront(&b_);
  EXPECT_THAT(Calls(), ElementsAre(&b_, &a_));
}

TEST_F(CallQueueTest, KnowsWhatStandsInIt) {
  queue_.PushBack(&a_);
  queue_.PushBack(&b_);
  EXPECT_TRUE(queue_.Contains(&a_));
  EXPECT_TRUE(queue_.Contains(&b_));
  EXPECT_FALSE(queue_.Contains(&c_));
  queue_.Clear();
  EXPECT_FALSE(queue_.Contains(&a_));
  EXPECT_THAT(Calls(), IsEmpty());
}

}  // namespace
}  // namespace verbena::transport
