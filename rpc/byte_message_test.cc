#include "rpc/byte_message.h"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/arena.h"
#include "google/protobuf/wrappers.pb.h"
#include "gtest/gtest.h"
#include "rpc/internal/codec/protobuf_codec.h"

namespace verbena {
namespace {

std::string Bytes(size_t length) {
  std::string bytes;
  for (size_t i = 0; i < length; ++i) bytes += static_cast<char>(i * 7);
  return bytes;
}

// Protobuf reads what is no longer than 16 bytes in another way.
TEST(ByteMessageTest, MessagesOfAnyLengthComeBack) {
  for (const size_t length : {0, 1, 15, 16, 17, 31, 32, 33, 1000, 1 << 20}) {
    const ByteMessage message(Bytes(length));
    ASSERT_EQ(internal::MeasureMessage(message, length).value(), length);
    // Never without memory, as a call's message is never.
    std::vector<uint8_t> wire(length + 1);
    internal::WriteMessage(message, length, wire.data());
    ByteMessage copy("what stood there before");
    ASSERT_EQ(internal::ParseMessage({wire.data(), length}, &copy),
              absl::OkStatus());
    EXPECT_EQ(copy.bytes(), message.bytes()) << length;
  }
}

TEST(ByteMessageTest, TheBytesAreThoseOfTheMessageThatWasSerialised) {
  google::protobuf::StringValue typed;
  typed.set_value("hello");
  ByteMessage message;
  ASSERT_TRUE(message.ParseFromString(typed.SerializeAsString()));
  EXPECT_EQ(message.bytes(), typed.SerializeAsString());
  google::protobuf::StringValue copy;
  ASSERT_TRUE(copy.ParseFromString(message.SerializeAsString()));
  EXPECT_EQ(copy.value(), "hello");
}

TEST(ByteMessageTest, MergedBytesAreAppended) {
  ByteMessage message("a");
  message.CheckTypeAndMergeFrom(ByteMessage("b"));
  EXPECT_EQ(message.bytes(), "ab");
  ASSERT_TRUE(message.MergeFromString("c"));
  EXPECT_EQ(message.bytes(), "abc");
  message.Clear();
  EXPECT_EQ(message.ByteSizeLong(), 0u);
}

TEST(ByteMessageTest, ItIsAValue) {
  ByteMessage message(Bytes(100));
  ByteMessage copy = message;
  EXPECT_EQ(copy.bytes(), message.bytes());
  const ByteMessage moved = std::move(copy);
  EXPECT_EQ(moved.bytes(), message.bytes());
  copy = moved;
  EXPECT_EQ(copy.bytes(), message.bytes());
  message = std::move(copy);
  EXPECT_EQ(message.bytes(), moved.bytes());
}

TEST(ByteMessageTest, AnotherOneIsMadeOnTheHeapOrInAnArena) {
  const ByteMessage message("old");
  const std::unique_ptr<ByteMessage> on_heap(message.New(nullptr));
  EXPECT_EQ(on_heap->bytes(), "");
  google::protobuf::Arena arena;
  message.New(&arena)->set_bytes(Bytes(1000));  // The arena frees them.
}

}  // namespace
}  // namespace verbena
