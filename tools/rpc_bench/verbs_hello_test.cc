#include "tools/rpc_bench/verbs_hello.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

namespace verbena::bench {
namespace {

absl::Span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

VerbsHello Hello() {
  VerbsHello hello;
  hello.plan = VerbsPlan::kBulkEcho;
  hello.events = true;
  hello.outstanding = 32;
  hello.size_bytes = 1 << 20;
  hello.receive_depth = 64;
  hello.inline_bytes = 220;
  hello.address = 0x7f0012345678;
  hello.rkey = 0xdeadbeef;
  return hello;
}

TEST(VerbsHelloTest, ComesThroughWithPadding) {
  const absl::StatusOr<VerbsHello> hello =
      DecodeHello(BytesOf(EncodeHello(Hello()) + std::string(8, '\0')));
  ASSERT_TRUE(hello.ok()) << hello.status();
  EXPECT_EQ(hello->plan, VerbsPlan::kBulkEcho);
  EXPECT_TRUE(hello->events);
  EXPECT_EQ(hello->outstanding, 32u);
  EXPECT_EQ(hello->size_bytes, 1u << 20);
  EXPECT_EQ(hello->receive_depth, 64u);
  EXPECT_EQ(hello->inline_bytes, 220u);
  EXPECT_EQ(hello->address, 0x7f0012345678u);
  EXPECT_EQ(hello->rkey, 0xdeadbeefu);
}

TEST(VerbsHelloTest, OfAnotherProgramIsRefused) {
  EXPECT_EQ(DecodeHello(BytesOf("hello")).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(DecodeHello(BytesOf(std::string(56, 'x'))).ok());
  EXPECT_FALSE(DecodeHello(BytesOf(EncodeWelcome({}))).ok());
  EXPECT_FALSE(DecodeWelcome(BytesOf(EncodeHello(Hello()))).ok());
}

TEST(VerbsHelloTest, ThatAsksForTooMuchIsRefused) {
  VerbsHello hello = Hello();
  hello.outstanding = 0;
  EXPECT_FALSE(DecodeHello(BytesOf(EncodeHello(hello))).ok());
  hello = Hello();
  hello.size_bytes = kMaxVerbsMemoryBytes / 32 + 1;
  EXPECT_FALSE(DecodeHello(BytesOf(EncodeHello(hello))).ok());
  hello = Hello();
  hello.receive_depth = 1 << 20;
  EXPECT_FALSE(DecodeHello(BytesOf(EncodeHello(hello))).ok());
  hello = Hello();
  hello.plan = static_cast<VerbsPlan>(9);
  EXPECT_FALSE(DecodeHello(BytesOf(EncodeHello(hello))).ok());
}

TEST(VerbsWelcomeTest, ComesThrough) {
  const absl::StatusOr<VerbsWelcome> welcome =
      DecodeWelcome(BytesOf(EncodeWelcome({.address = 7, .rkey = 9})));
  ASSERT_TRUE(welcome.ok()) << welcome.status();
  EXPECT_EQ(welcome->address, 7u);
  EXPECT_EQ(welcome->rkey, 9u);
}

}  // namespace
}  // namespace verbena::bench
