#include "proto/method_hash.h"

#include <cstdint>
#include <set>
#include <string>

#include "gtest/gtest.h"

namespace verbena {
namespace {

// A change of any of these numbers breaks every peer that is already built.
TEST(MethodHashTest, IsThatOfTheProtocol) {
  EXPECT_EQ(MethodHash(""), 0xefd01f60ba992926u);
  EXPECT_EQ(MethodHash("helloworld.Greeter/SayHello"), 0x234a60f553b1a56fu);
}

TEST(MethodHashTest, IsAConstantExpression) {
  static_assert(MethodHash("a.B/C") != MethodHash("a.B/D"));
}

TEST(MethodHashTest, SpreadsSimilarNamesOverTheLowBits) {
  std::set<uint64_t> low_bits;
  for (int i = 0; i < 64; ++i) {
    low_bits.insert(MethodHash("package.Service/Method" + std::to_string(i)) %
                    (uint64_t{1} << 20));
  }
  EXPECT_EQ(low_bits.size(), 64u);
}

}  // namespace
}  // namespace verbena
