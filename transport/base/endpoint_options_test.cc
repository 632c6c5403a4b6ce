#include "transport/base/endpoint_options.h"

#include <gtest/gtest.h>

#include <string>

namespace verbena::transport {
namespace {

std::string Refusal(const EndpointOptions& options) {
  return std::string(CheckOptions(options).message());
}

TEST(EndpointOptionsTest, DefaultsAreFine) {
  EXPECT_TRUE(CheckOptions(EndpointOptions()).ok());
}

TEST(EndpointOptionsTest, MessagesOfNoBytesAreRefused) {
  EndpointOptions options;
  options.max_receive_message_bytes = 0;
  EXPECT_EQ(Refusal(options),
            "max_receive_message_bytes must be from 1 to 2147483648, not 0");
}

TEST(EndpointOptionsTest, MessagesAreLimitedAtAndPastTheEdge) {
  EndpointOptions options;
  options.max_arena_bytes = options.max_bulk_bytes = kMaxMessageBytes;
  options.max_send_message_bytes = kMaxMessageBytes;
  EXPECT_TRUE(CheckOptions(options).ok());
  options.max_send_message_bytes = kMaxMessageBytes + 1;
  EXPECT_NE(Refusal(options), "");
  // No power of two is as large.
  options.max_send_message_bytes = UINT64_MAX;
  EXPECT_NE(Refusal(options), "");
}

TEST(EndpointOptionsTest, MemoryMustHoldTheLargestMessage) {
  EndpointOptions options;
  options.max_receive_message_bytes = 5000000;
  options.max_send_message_bytes = 5000000;
  options.max_arena_bytes = 8388607;
  EXPECT_EQ(Refusal(options),
            "max_arena_bytes is 8388607, too little for a message of 5000000 "
            "bytes: at least 8388608 are needed");
  options.max_arena_bytes = 8388608;
  EXPECT_TRUE(CheckOptions(options).ok());
}

TEST(EndpointOptionsTest, MemoryMustHoldTheFirstArenaHoweverSmallTheMessages) {
  EndpointOptions options;
  options.max_receive_message_bytes = 1;
  options.max_send_message_bytes = 1;
  options.max_arena_bytes = kFirstArenaBytes - 1;
  EXPECT_NE(Refusal(options), "");
  options.max_arena_bytes = kFirstArenaBytes;
  EXPECT_TRUE(CheckOptions(options).ok());
}

TEST(EndpointOptionsTest, MemoryMayBeKeptForEverOrNotAtAll) {
  EndpointOptions options;
  options.memory_floor_bytes = 0;
  options.memory_idle_time = absl::Nanoseconds(1);
  EXPECT_TRUE(CheckOptions(options).ok());
  options.memory_floor_bytes = UINT64_MAX;
  options.memory_idle_time = absl::InfiniteDuration();
  EXPECT_TRUE(CheckOptions(options).ok());
}

TEST(EndpointOptionsTest, TimesMustBePositive) {
  EndpointOptions options;
  options.connect_timeout = absl::ZeroDuration();
  EXPECT_EQ(Refusal(options), "connect_timeout must be positive, not 0");
  options = EndpointOptions();
  options.memory_idle_time = absl::ZeroDuration();
  EXPECT_EQ(Refusal(options), "memory_idle_time must be positive, not 0");
  options = EndpointOptions();
  options.stall_timeout = absl::ZeroDuration();
  EXPECT_EQ(Refusal(options), "stall_timeout must be positive, not 0");
  options.stall_timeout = absl::InfiniteDuration();
  EXPECT_TRUE(CheckOptions(options).ok());
  options = EndpointOptions();
  options.spin_budget = absl::Seconds(-1);
  EXPECT_EQ(Refusal(options), "spin_budget must not be negative");
}

}  // namespace
}  // namespace verbena::transport
