#include "tools/rpc_bench/verbs_hello.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace verbena::bench {
namespace {

VerbsHello Hello() {
  VerbsHello hello;
  hello.plan = VerbsPlan::kBulkEcho;
  hello.outstanding = 32;
  hello.size_bytes = 1 << 20;
  hello.address = 0x7f0012345678;
  return hello;
}

TEST(VerbsHelloTest, ComesThroughWithPadding) {
  const VerbsHello sent = Hello();
  std::vector<uint8_t> bytes(sent.bytes().begin(), sent.bytes().end());
  bytes.resize(bytes.size() + 8);
  const absl::StatusOr<VerbsHello> hello = DecodeHello(bytes);
  ASSERT_TRUE(hello.ok()) << hello.status();
  EXPECT_EQ(hello->plan, VerbsPlan::kBulkEcho);
  EXPECT_EQ(hello->outstanding, 32u);
  EXPECT_EQ(hello->size_bytes, 1u << 20);
  EXPECT_EQ(hello->address, 0x7f0012345678u);
}

TEST(VerbsHelloTest, OfAnotherProgramIsRefused) {
  const std::string text(56, 'x');
  const absl::Span<const uint8_t> other(
      reinterpret_cast<const uint8_t*>(text.data()), text.size());
  EXPECT_EQ(DecodeHello(other).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(DecodeHello(Hello().bytes().first(20)).ok());
  EXPECT_FALSE(DecodeHello({}).ok());
}

TEST(VerbsHelloTest, ThatAsksForTooMuchIsRefused) {
  VerbsHello hello = Hello();
  hello.outstanding = 0;
  EXPECT_FALSE(DecodeHello(hello.bytes()).ok());
  hello = Hello();
  hello.size_bytes = kMaxVerbsMemoryBytes / 32 + 1;
  EXPECT_FALSE(DecodeHello(hello.bytes()).ok());
  hello = Hello();
  hello.plan = static_cast<VerbsPlan>(9);
  EXPECT_FALSE(DecodeHello(hello.bytes()).ok());
}

}  // namespace
}  // namespace verbena::bench
