#include "tools/verbena/schema.h"

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace verbena::tool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr absl::string_view kProto = R"(
syntax = "proto3";
package shop;
service Till { rpc Pay(Coin) returns (Coin); }
service Bell { rpc Ring(stream Coin) returns (stream Coin); }
message Coin { int32 cents = 1; Metal metal = 2; }
enum Metal { COPPER = 0; }
)";

absl::StatusOr<std::unique_ptr<Schema>> SchemaOf(absl::string_view text) {
  std::ofstream(testing::TempDir() + "/shop.proto") << text;
  return Schema::FromFiles({"shop.proto"}, {testing::TempDir()});
}

TEST(SchemaTest, OfFilesHasTheirServices) {
  const auto schema = SchemaOf(kProto);
  ASSERT_TRUE(schema.ok()) << schema.status();
  const auto services = (*schema)->Services();
  ASSERT_TRUE(services.ok()) << services.status();
  EXPECT_THAT(*services, ElementsAre("shop.Bell", "shop.Till"));
}

TEST(SchemaTest, MethodsAreFoundByBothWaysOfWritingThem) {
  const auto schema = SchemaOf(kProto);
  ASSERT_TRUE(schema.ok()) << schema.status();
  for (const char* name :
       {"shop.Bell/Ring", "/shop.Bell/Ring", "shop.Bell.Ring"}) {
    const auto method = (*schema)->FindMethod(name);
    ASSERT_TRUE(method.ok()) << method.status();
    EXPECT_EQ((*method)->full_name(), "shop.Bell.Ring");
    EXPECT_TRUE((*method)->client_streaming());
  }
}

TEST(SchemaTest, WhatIsNotThereIsNamed) {
  const auto schema = SchemaOf(kProto);
  ASSERT_TRUE(schema.ok()) << schema.status();
  const absl::Status missing =
      (*schema)->FindMethod("shop.Till/Steal").status();
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
  EXPECT_THAT(missing.ToString(), HasSubstr("\"shop.Till.Steal\""));
  const absl::Status message = (*schema)->FindMethod("shop.Coin").status();
  EXPECT_TRUE(absl::IsInvalidArgument(message)) << message;
}

TEST(SchemaTest, DescribesWhatAProtoHas) {
  const auto schema = SchemaOf(kProto);
  ASSERT_TRUE(schema.ok()) << schema.status();
  EXPECT_THAT(*(*schema)->Describe("shop.Coin"), HasSubstr("int32 cents = 1;"));
  EXPECT_THAT(*(*schema)->Describe("shop.Metal"), HasSubstr("COPPER = 0;"));
  EXPECT_THAT(*(*schema)->Describe("shop.Till"), HasSubstr("rpc Pay("));
  EXPECT_THAT(*(*schema)->Describe("shop.Till/Pay"), HasSubstr("rpc Pay("));
  EXPECT_THAT(*(*schema)->Describe("shop.Coin.cents"),
              StartsWith("message Coin {"));
  EXPECT_THAT(*(*schema)->Describe("shop.COPPER"), StartsWith("enum Metal {"));
  EXPECT_TRUE(absl::IsInvalidArgument((*schema)->Describe("shop").status()));
}

TEST(SchemaTest, WhatComesWithProtobufNeedNotBeAmongTheFiles) {
  const auto schema = SchemaOf(R"(
    syntax = "proto3"; import "google/protobuf/timestamp.proto";
    message Sale { google.protobuf.Timestamp when = 1;
                   map<string, int32> items = 2; })");
  ASSERT_TRUE(schema.ok()) << schema.status();
  EXPECT_THAT(*(*schema)->Describe("Sale.ItemsEntry"),
              StartsWith("message Sale {"));
}

TEST(SchemaTest, WhatTheCompilerSaysOfAFileIsPassedOn) {
  const absl::Status broken =
      SchemaOf("syntax = \"proto3\";\nmessage {}\n").status();
  EXPECT_TRUE(absl::IsInvalidArgument(broken)) << broken;
  EXPECT_THAT(broken.ToString(), HasSubstr("shop.proto:2:"));
  const absl::Status missing =
      Schema::FromFiles({"none.proto"}, {testing::TempDir()}).status();
  EXPECT_THAT(missing.ToString(), HasSubstr("none.proto"));
}

}  // namespace
}  // namespace verbena::tool
