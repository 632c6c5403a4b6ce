#include "transport/base/byte_buffer.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"

namespace verbena::base {
namespace {

std::string Text(const ByteBuffer& buffer) {
  const absl::Span<const uint8_t> span = buffer.span();
  return std::string(span.begin(), span.end());
}

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()),
                             text.size());
}

TEST(ByteBufferTest, KeepsWhatWasAppendedWhileItGrows) {
  ByteBuffer buffer;
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    const std::string more(static_cast<size_t>(i),
                           static_cast<char>('a' + i % 26));
    ASSERT_TRUE(buffer.Append(Bytes(more)));
    expected += more;
  }
  EXPECT_EQ(Text(buffer), expected);
}

TEST(ByteBufferTest, LetsOthersWriteWhatItGrowsBy) {
  ByteBuffer buffer;
  ASSERT_TRUE(buffer.Append(Bytes("one ")));
  std::memcpy(buffer.Grow(3), "two", 3);
  EXPECT_EQ(Text(buffer), "one two");
}

TEST(ByteBufferTest, KeepsItsMemoryWhenClearedUnlessThatIsMuch) {
  ByteBuffer buffer;
  uint8_t* const begin = buffer.Grow(1000);
  buffer.Clear(/*kept_bytes=*/4096);
  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(buffer.Grow(1), begin);
  buffer.Clear(/*kept_bytes=*/10);
  EXPECT_EQ(buffer.data(), nullptr);
}

TEST(ByteBufferTest, ChangesPlacesWithAnother) {
  ByteBuffer one;
  ByteBuffer other;
  ASSERT_TRUE(one.Append(Bytes("one")));
  one.Swap(other);
  EXPECT_TRUE(one.empty());
  EXPECT_EQ(Text(other), "one");
}

}  // namespace
}  // namespace verbena::base
