#include "transport/connection/client_call_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace verbena::transport {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct IdleCall final : ClientCall {
  void WriteRequest(uint8_t* /*out*/) override {}
  void OnResponse(const CallResponse& /*response*/) override {}
  void OnFailed(const absl::Status& /*status*/) override {}
};

class ClientCallQueueTest : public testing::Test {
 protected:
  std::vector<const ClientCall*> Calls() const {
    std::vector<const ClientCall*> calls;
    for (const ClientCall* call = queue_.front(); call != nullptr;
         call = ClientCallQueue::Next(call)) {
      calls.push_back(call);
    }
    EXPECT_EQ(queue_.size(), calls.size());
    EXPECT_EQ(queue_.empty(), calls.empty());
    return calls;
  }

  ClientCallQueue queue_;
  IdleCall a_, b_, c_;
};

TEST_F(ClientCallQueueTest, KeepsTheOrderOfArrival) {
  EXPECT_THAT(Calls(), IsEmpty());
  queue_.PushBack(&a_);
  queue_.PushBack(&b_);
  queue_.PushBack(&c_);
  EXPECT_THAT(Calls(), ElementsAre(&a_, &b_, &c_));
}

TEST_F(ClientCallQueueTest, TakesBackWhoWasFirst) {
  queue_.PushFront(&b_);
  queue_.PushFront(&a_);
  queue_.PushBack(&c_);
  EXPECT_THAT(Calls(), ElementsAre(&a_, &b_, &c_));
}

TEST_F(ClientCallQueueTest, LetsGoOfAnyCall) {
  for (IdleCall* call : {&a_, &b_, &c_}) queue_.PushBack(call);
  queue_.Remove(&b_);
  EXPECT_THAT(Calls(), ElementsAre(&a_, &c_));
  queue_.Remove(&c_);
  EXPECT_THAT(Calls(), ElementsAre(&a_));
  queue_.Remove(&a_);
  EXPECT_THAT(Calls(), IsEmpty());
}

TEST_F(ClientCallQueueTest, TakesACallAgainAfterItWasRemoved) {
  queue_.PushBack(&a_);
  queue_.PushBack(&b_);
  queue_.Remove(&a_);
  queue_.PushBack(&a_);
  EXPECT_THAT(Calls(), ElementsAre(&b_, &a_));
  queue_.Remove(&b_);
  queue_.PushFront(&b_);
  EXPECT_THAT(Calls(), ElementsAre(&b_, &a_));
}

}  // namespace
}  // namespace verbena::transport
