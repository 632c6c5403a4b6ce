#include "tools/gateway/translate.h"

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "grpcpp/support/slice.h"
#include "gtest/gtest.h"

namespace verbena::gateway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST(TranslateTest, MessagesKeepTheirBytes) {
  for (const std::string& bytes :
       {std::string(), std::string("\0x", 2), std::string(100000, 'x')}) {
    EXPECT_EQ(*FromGrpc(ToGrpc(bytes)), bytes);
  }
}

TEST(TranslateTest, AMessageMayBeInPieces) {
  const grpc::Slice slices[] = {grpc::Slice("one "), grpc::Slice("two")};
  EXPECT_EQ(*FromGrpc(grpc::ByteBuffer(slices, 2)), "one two");
}

TEST(TranslateTest, StatusesKeepCodeAndMessage) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "a text");
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
    EXPECT_EQ(ToGrpc(status).error_code(), code);
  }
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
}

TEST(TranslateTest, WhatIsOfTheTransportStays) {
  const GrpcMetadata metadata = {{"user-agent", "grpc-c++"},
                                 {"te", "trailers"},
                                 {"content-type", "application/grpc"},
                                 {":path", "/a/b"},
                                 {"grpc-accept-encoding", "gzip"},
                                 {"grpc-status-details-bin", "details"},
                                 {"authorization", "token"},
                                 {"x-bin", "\xff"}};
  EXPECT_THAT(FromGrpc(metadata),
              UnorderedElementsAre(Pair("grpc-status-details-bin", "details"),
                                   Pair("authorization", "token"),
                                   Pair("x-bin", "\xff")));
  EXPECT_THAT(*ToGrpc(Metadata{{"grpc-timeout", "1S"}, {"key", "value"}}),
              ElementsAre(Pair("key", "value")));
}

TEST(TranslateTest, KeysBecomeLowerCase) {
  EXPECT_THAT(*ToGrpc(Metadata{{"X-Key", "Value"}}),
              ElementsAre(Pair("x-key", "Value")));
}

TEST(TranslateTest, WhatGrpcCannotCarryIsRefused) {
  EXPECT_THAT(ToGrpc(Metadata{{"two words", "x"}}).status().message(),
              HasSubstr("\"two words\": gRPC cannot carry its key"));
  EXPECT_THAT(ToGrpc(Metadata{{"", "x"}}).status().message(),
              HasSubstr("its key"));
  EXPECT_THAT(ToGrpc(Metadata{{"key", "\n"}}).status().message(),
              HasSubstr("\"key\": gRPC cannot carry its value"));
  EXPECT_THAT(*ToGrpc(Metadata{{"key-bin", "\n"}}),
              ElementsAre(Pair("key-bin", "\n")));
}

TEST(TranslateTest, ADeadlineMayBeNone) {
  using Clock = std::chrono::system_clock;
  EXPECT_EQ(DeadlineFromGrpc(Clock::time_point::max()), absl::InfiniteFuture());
  EXPECT_EQ(DeadlineFromGrpc(Clock::from_time_t(1000)),
            absl::FromUnixSeconds(1000));
}

}  // namespace
}  // namespace verbena::gateway
