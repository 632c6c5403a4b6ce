// Several frames in one SEND.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "transport/base/limits.h"
#include "transport/device/send_batch.h"
#include "transport/device/send_buffers.h"
#include "transport/session/send_queue.h"
#include "transport/verbs/fake_verbs.h"
#include "transport/verbs/protection_domain.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

constexpr uint32_t kInline = 100;
constexpr uint32_t kBuffers = SendBuffers::kSlabBuffers;

// Makes trains of frames, each of which is filled with a letter.
class SendQueueTrainTest : public testing::Test {
 protected:
  SendQueueTrainTest() { queue_.Attach(verbs_.qp(), kInline); }

  static constexpr uint32_t kRoom = 1000;

  void BeginTrain(char letter, uint32_t bytes) {
    std::memset(queue_.BeginFrame(bytes), letter, bytes);
    ASSERT_EQ(queue_.PostFrame(bytes, /*signalled=*/false), 0);
    queue_.BeginTrain(bytes);
  }
  // Returns whether the frame has joined the train.
  bool Join(char letter, uint32_t bytes) {
    if (!queue_.has_train()) return false;
    uint8_t* const frame = queue_.BeginInTrain(bytes, kRoom);
    if (frame == nullptr) return false;
    std::memset(frame, letter, bytes);
    EXPECT_TRUE(queue_.begun_in_train());
    EXPECT_EQ(queue_.PostInTrain(bytes), 0);
    return true;
  }
  // The bytes of the only SEND that the device was given.
  std::string Sent() {
    EXPECT_EQ(queue_.Flush(), 0);
    EXPECT_EQ(verbs_.sends.size(), 1u);
    const FakeWorkRequest& send = verbs_.sends.front();
    // Scratch memory of a batch stays where it was.
    return {reinterpret_cast<const char*>(send.address), send.length};
  }
  // Posts a frame that holds a buffer.
  void PostFrame() {
    ASSERT_NE(queue_.BeginFrame(200), nullptr);
    ASSERT_EQ(queue_.PostFrame(200, /*signalled=*/false), 0);
    ASSERT_EQ(queue_.Flush(), 0);
  }

  FakeVerbs verbs_;
  ProtectionDomain pd_ =
      *ProtectionDomain::Create(verbs_.table(), verbs_.context());
  SendBuffers buffers_ = *SendBuffers::Create(pd_, kBuffers, 0);
  SendBatches batches_;
  SharedSends shared_{kSendQueueDepth};
  SendQueue queue_{buffers_, batches_, shared_};
};

TEST_F(SendQueueTrainTest, FramesStandOneBehindTheOtherOnMultiplesOfEight) {
  BeginTrain('a', 11);
  ASSERT_TRUE(Join('b', 8));
  ASSERT_TRUE(Join('c', 3));
  EXPECT_EQ(Sent(), std::string(11, 'a') + std::string(5, '\0') +
                        std::string(8, 'b') + std::string(3, 'c'));
}

TEST_F(SendQueueTrainTest, MovesToABufferWhenItIsTooLongToBeInline) {
  BeginTrain('a', kInline - 4);
  ASSERT_TRUE(Join('b', 40));
  EXPECT_EQ(Sent(), std::string(kInline - 4, 'a') + std::string(40, 'b'));
  EXPECT_EQ(verbs_.sends[0].flags & IBV_SEND_INLINE, 0u);
  EXPECT_EQ(buffers_.held(), 1u);
  EXPECT_TRUE(queue_.Complete(verbs_.sends.back().wr_id, [](void*) {}));
  EXPECT_EQ(buffers_.held(), 0u);
}

TEST_F(SendQueueTrainTest, AFrameForWhichThereIsNoRoomGoesAlone) {
  BeginTrain('a', 200);
  EXPECT_TRUE(Join('b', kRoom - 200));
  EXPECT_FALSE(Join('c', 1));
}

TEST_F(SendQueueTrainTest, AFrameForWhichThereIsNoBufferGoesAlone) {
  // Its share, and one whose completion brings them back.
  for (uint32_t i = 0; i < kBuffers / 2 + 1; ++i) PostFrame();
  verbs_.sends.clear();
  BeginTrain('a', kInline);
  EXPECT_FALSE(Join('b', kInline));
  EXPECT_EQ(Sent(), std::string(kInline, 'a'));
}

TEST_F(SendQueueTrainTest, NothingJoinsBehindAnotherRequestOrADoorbell) {
  BeginTrain('a', 10);
  ASSERT_NE(queue_.BeginFrame(50), nullptr);
  ASSERT_EQ(queue_.PostFrame(50, /*signalled=*/false), 0);
  EXPECT_FALSE(Join('b', 10));
  BeginTrain('a', 10);
  ASSERT_EQ(queue_.Flush(), 0);
  EXPECT_FALSE(Join('b', 10));
}

TEST_F(SendQueueTrainTest, AFullTrainGoesToTheDeviceAtOnce) {
  BeginTrain('a', 10);
  for (uint32_t i = 1; i < kTrainFrames; ++i) {
    EXPECT_TRUE(verbs_.sends.empty());
    ASSERT_TRUE(Join('b', 10));
  }
  EXPECT_EQ(verbs_.sends.size(), 1u);
  EXPECT_FALSE(Join('c', 10));
}

}  // namespace
}  // namespace verbena::transport
