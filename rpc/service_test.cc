#include "rpc/service.h"

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/wrappers.pb.h"
#include "gtest/gtest.h"

namespace verbena {
namespace {

using google::protobuf::BytesValue;

class BytesService final : public Service {
 public:
  BytesService() : Service("test.Bytes") {
    AddUnaryMethod<BytesValue, BytesValue>(
        "test.Bytes/Take", [](ServerContext*, const BytesValue*, BytesValue*) {
          return absl::OkStatus();
        });
  }
};

class CallMessagesTest : public testing::Test {
 protected:
  CallMessagesTest()
      : messages_(service_.methods().front()->NewMessages()),
        empty_(messages_->SpaceUsed()) {}

  static void Fill(google::protobuf::MessageLite* message) {
    static_cast<BytesValue*>(message)->set_value(std::string(kBytes, 'x'));
  }

  static constexpr size_t kBytes = 100000;

  BytesService service_;
  const std::unique_ptr<internal::CallMessages> messages_;
  const size_t empty_;
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
}  // namespace verbena
