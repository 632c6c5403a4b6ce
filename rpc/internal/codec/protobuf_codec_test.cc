#include "rpc/internal/codec/protobuf_codec.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/wrappers.pb.h"
#include "gtest/gtest.h"

namespace verbena::internal {
namespace {

using google::protobuf::BytesValue;
using google::protobuf::UninterpretedOption;
using testing::HasSubstr;

TEST(ProtobufCodecTest, WhatIsWrittenIsRead) {
  BytesValue message;
  message.set_value(std::string(10000, '\xff'));
  std::vector<uint8_t> bytes(MeasureMessage(message, 1 << 20).value());
  WriteMessage(message, bytes.size(), bytes.data());
  BytesValue copy;
  ASSERT_EQ(ParseMessage(bytes, &copy), absl::OkStatus());
  EXPECT_EQ(copy.value(), message.value());
}

TEST(ProtobufCodecTest, AnEmptyMessageHasNoBytes) {
  BytesValue message;
  EXPECT_EQ(MeasureMessage(message, 0).value(), 0u);
  message.set_value("old");
  ASSERT_EQ(ParseMessage({}, &message), absl::OkStatus());
  EXPECT_EQ(message.value(), "");
}

TEST(ProtobufCodecTest, TheLimitIsInclusive) {
  BytesValue message;
  message.set_value("12345678");
  EXPECT_EQ(MeasureMessage(message, 10).value(), 10u);
  const absl::Status status =
      MeasureMessage(message, 9, "max_send_message_bytes").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("10 bytes"));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("max_send_message_bytes, 9"));
}

TEST(ProtobufCodecTest, GarbageIsRefusedByTheNameOfTheType) {
  const std::vector<uint8_t> bytes = {0x0a, 0xff};
  BytesValue message;
  const absl::Status status = ParseMessage(bytes, &message);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("google.protobuf.BytesValue"));
}

// UninterpretedOption is a type of Protobuf's own that has required fields.
TEST(ProtobufCodecTest, AMissingRequiredFieldIsNamed) {
  UninterpretedOption message;
  message.add_name();
  const absl::Status status = MeasureMessage(message, 1000).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("name_part"));

  const std::string bytes = message.SerializePartialAsString();
  UninterpretedOption copy;
  const absl::Status parsed = ParseMessage(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, &copy);
  EXPECT_EQ(parsed.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(parsed.message()), HasSubstr("name_part"));
}

}  // namespace
}  // namespace verbena::internal
