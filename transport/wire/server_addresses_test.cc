#include "transport/wire/server_addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

using testing::HasSubstr;

TEST(ServerAddressesTest, ArriveAsTheyWereSent) {
  const char kSent[] = "5ab0,10.0.0.7:50051,[fd00::7]:50051";
  const absl::StatusOr<ServerAddresses> decoded = DecodeServerAddresses(kSent);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->server, "5ab0");
  ASSERT_EQ(decoded->addresses.size(), 2u);
  EXPECT_EQ(decoded->addresses[0].ToString(), "10.0.0.7:50051");
  EXPECT_EQ(decoded->addresses[1].ToString(), "[fd00::7]:50051");
  EXPECT_EQ(EncodeServerAddresses(*decoded), kSent);
}

TEST(ServerAddressesTest, MayBeNone) {
  const absl::StatusOr<ServerAddresses> decoded = DecodeServerAddresses("5ab0");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(decoded->addresses.empty());
}

TEST(ServerAddressesTest, SayWhatIsMalformed) {
  for (const char* const value :
       {"", ",10.0.0.7:1", "a b,10.0.0.7:1", "5ab0,", "5ab0,10.0.0.7",
        "5ab0,10.0.0.7:0", "5ab0,10.0.0.7:70000", "5ab0,host.example:1",
        "5ab0,\xff:1"}) {
    const absl::Status status = DecodeServerAddresses(value).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << value;
    EXPECT_THAT(status.message(), HasSubstr("malformed")) << value;
  }
}

TEST(ServerAddressesTest, AreBounded) {
  std::string value = "5ab0";
  for (size_t i = 0; i < kServerAddressesMax; ++i) {
    absl::StrAppend(&value, ",10.0.0.", i + 1, ":1");
  }
  EXPECT_TRUE(DecodeServerAddresses(value).ok());
  absl::StrAppend(&value, ",10.0.0.99:1");
  EXPECT_FALSE(DecodeServerAddresses(value).ok());
  EXPECT_FALSE(DecodeServerAddresses(std::string(33, 'a')).ok());
}

}  // namespace
}  // namespace verbena::transport
