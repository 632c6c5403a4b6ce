#include "tools/rpc_bench/flags.h"

#include "gtest/gtest.h"

namespace verbena::bench {
namespace {

TEST(ReadPinningTest, PinsBothOrOneOrNone) {
  EXPECT_FALSE(ReadPinning("pin", "off")->on);
  EXPECT_TRUE(ReadPinning("pin", "")->on);
  EXPECT_EQ(ReadPinning("pin", "")->client, -1);
  EXPECT_EQ(ReadPinning("pin", "0,1")->client, 0);
  EXPECT_EQ(ReadPinning("pin", "0,1")->server, 1);
  EXPECT_EQ(ReadPinning("pin", "3")->server, 3);
  for (const char* text : {"on", "0,1,2", "-1", "1024"}) {
    EXPECT_FALSE(ReadPinning("pin", text).ok()) << text;
  }
}

}  // namespace
}  // namespace verbena::bench
