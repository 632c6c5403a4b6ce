#include "rpc/status_details.h"

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/wrappers.pb.h"
#include "gtest/gtest.h"
#include "transport/base/limits.h"

namespace verbena {
namespace {

using google::protobuf::Duration;
using google::protobuf::StringValue;

StringValue Text(const std::string& text) {
  StringValue message;
  message.set_value(text);
  return message;
}

absl::Status Read(const std::string& bytes) {
  absl::Status status;
  const absl::Status read = FromGoogleRpcStatus(bytes, &status);
  return read.ok() ? status : absl::DataLossError(read.message());
}

TEST(StatusDetailsTest, ADetailIsFoundByItsType) {
  absl::Status status = absl::NotFoundError("no such key");
  EXPECT_FALSE(HasStatusDetails(status));
  AddStatusDetail(&status, Text("first"));
  AddStatusDetail(&status, Text("second"));
  EXPECT_TRUE(HasStatusDetails(status));
  EXPECT_EQ(GetStatusDetail<StringValue>(status)->value(), "second");
  EXPECT_EQ(GetStatusDetail<Duration>(status), std::nullopt);
}

TEST(StatusDetailsTest, OtherBytesThanThoseOfTheTypeAreNoDetail) {
  absl::Status status = absl::NotFoundError("no such key");
  status.SetPayload(StatusDetailUrl(StringValue()), absl::Cord("\xff\xff"));
  EXPECT_EQ(GetStatusDetail<StringValue>(status), std::nullopt);
}

TEST(StatusDetailsTest, AGoodStatusHasNone) {
  absl::Status status;
  AddStatusDetail(&status, Text("detail"));
  EXPECT_FALSE(HasStatusDetails(status));
  EXPECT_EQ(ToGoogleRpcStatus(status), "");
}

// The bytes that protoc encodes for the message of google/rpc/status.proto.
TEST(StatusDetailsTest, KeepsTheBytesOfAGoogleRpcStatus) {
  absl::Status status = absl::NotFoundError("no");
  status.SetPayload("u", absl::Cord("v"));
  EXPECT_EQ(absl::BytesToHexString(ToGoogleRpcStatus(status)),
            "0805"      // code: 5
            "12026e6f"  // message: "no"
            "1a06"      // details:
            "0a0175"    // type_url: "u"
            "120176");  // value: "v"
}

TEST(StatusDetailsTest, EveryStatusComesBack) {
  absl::Status status = absl::InvalidArgumentError("wrong");
  EXPECT_EQ(Read(ToGoogleRpcStatus(status)), status);
  AddStatusDetail(&status, Text("detail"));
  AddStatusDetail(&status, Duration());
  status.SetPayload("of nobody", absl::Cord(std::string("\0\xff", 2)));
  EXPECT_EQ(Read(ToGoogleRpcStatus(status)), status);
}

TEST(StatusDetailsTest, WhatIsNoGoogleRpcStatusIsRefused) {
  absl::Status status = absl::InvalidArgumentError("wrong");
  AddStatusDetail(&status, Text("detail"));
  const std::string bytes = ToGoogleRpcStatus(status);
  int refused = 0;
  for (size_t length = 0; length < bytes.size(); ++length) {
    refused += absl::IsDataLoss(Read(bytes.substr(0, length))) ? 1 : 0;
  }
  // All but those between two fields.
  EXPECT_EQ(refused, static_cast<int>(bytes.size()) - 3);
  for (const char* wrong :
       {"\x1a\x01\xff", "\x0f", "\x12\xff\xff\xff\xff\x0f"}) {
    EXPECT_TRUE(absl::IsDataLoss(Read(wrong)));
    absl::Status untouched = absl::NotFoundError("no such key");
    TakeStatusDetails(wrong, &untouched);
    EXPECT_EQ(untouched, absl::NotFoundError("no such key"));
  }
}

TEST(StatusDetailsTest, AMessageThatFillsItsFrameGoesOnInThem) {
  const std::string head(transport::kMaxStatusMessageBytes, 'h');
  absl::Status sent = absl::AbortedError(head + "rest");
  AddStatusDetail(&sent, Text("detail"));
  const std::string bytes = ToGoogleRpcStatus(sent);
  absl::Status status = absl::AbortedError(head);
  TakeStatusDetails(bytes, &status);
  EXPECT_EQ(status, sent);
  // Others are what they are.
  for (const std::string& message :
       {std::string(), head.substr(1), head + "r", std::string(2048, 'x')}) {
    absl::Status other = absl::AbortedError(message);
    TakeStatusDetails(bytes, &other);
    EXPECT_EQ(other.message(), message);
  }
}

TEST(StatusDetailsTest, FieldsAndCodesThatNobodyKnowsDoNoHarm) {
  EXPECT_EQ(Read("\x08\x05\x20\x07\x2a\x02hi"), absl::NotFoundError(""));
  EXPECT_EQ(Read("\x08\x7f"), absl::UnknownError(""));
  // -1, as protobuf writes it.
  EXPECT_EQ(Read("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
            absl::UnknownError(""));
}

}  // namespace
}  // namespace verbena
