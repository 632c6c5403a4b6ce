#include "rpc/support/methods.h"

#include <cstddef>
#include <memory>
#include <string>

#include "google/protobuf/wrappers.pb.h"
#include "gtest/gtest.h"

namespace verbena::internal {
namespace {

using google::protobuf::BytesValue;

class CallMessagesTest : public testing::Test {
 protected:
  static void Fill(google::protobuf::MessageLite* message) {
    static_cast<BytesValue*>(message)->set_value(std::string(kBytes, 'x'));
  }

  static constexpr size_t kBytes = 100000;

  const std::unique_ptr<CallMessages> messages_ =
      std::make_unique<TypedMessages<BytesValue, BytesValue>>();
  const size_t empty_ = messages_->SpaceUsed();
};

TEST_F(CallMessagesTest, TakeMemoryThatStaysWhenTheyAreCleared) {
  Fill(messages_->request());
  Fill(messages_->response());
  EXPECT_GE(messages_->SpaceUsed(), empty_ + 2 * kBytes);
  messages_->request()->Clear();
  messages_->response()->Clear();
  EXPECT_GE(messages_->SpaceUsed(), empty_ + 2 * kBytes);
}

TEST_F(CallMessagesTest, GiveTheMemoryOfARequestBack) {
  Fill(messages_->request());
  Fill(messages_->response());
  messages_->DropRequest();
  EXPECT_LT(messages_->SpaceUsed(), empty_ + 2 * kBytes);
  EXPECT_EQ(static_cast<BytesValue*>(messages_->response())->value().size(),
            kBytes);
  Fill(messages_->request());
  EXPECT_GE(messages_->SpaceUsed(), empty_ + 2 * kBytes);
}

}  // namespace
}  // namespace verbena::internal
