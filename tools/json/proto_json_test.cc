#include "tools/json/proto_json.h"

#include "gmock/gmock.h"
#include "google/protobuf/type.pb.h"
#include "gtest/gtest.h"

namespace verbena::tool {
namespace {

// A message of a text and a message.
google::protobuf::Option NamedA() {
  google::protobuf::Option option;
  option.set_name("a");
  return option;
}

TEST(ToJsonTest, AnAbsentFieldIsNullInOneLine) {
  EXPECT_EQ(ToJson(NamedA()), R"({"name":"a","value":null})");
}

TEST(ToJsonTest, AnIndentedObjectHasALineForEachField) {
  EXPECT_EQ(ToJson(NamedA(), JsonLayout::kIndented),
            "{\n \"name\": \"a\"\n}\n");
}

TEST(ToJsonTest, FieldsKeepTheirNamesAndDefaults) {
  EXPECT_THAT(ToJson(google::protobuf::Field()),
              testing::HasSubstr(R"("type_url":"","oneof_index":0,)"));
}

}  // namespace
}  // namespace verbena::tool
