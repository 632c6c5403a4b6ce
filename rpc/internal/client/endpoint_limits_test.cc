#include "rpc/internal/client/endpoint_limits.h"

#include <climits>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/channel_options.h"
#include "transport/base/endpoint_options.h"

namespace verbena::internal {
namespace {

using testing::HasSubstr;

// Returns the status of converting the default options after `change`.
absl::Status StatusAfter(const std::function<void(ChannelOptions&)>& change) {
  ChannelOptions options;
  change(options);
  return ToEndpointOptions(options).status();
}

void ExpectRefused(const absl::Status& status, const std::string& field) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(field));
}

TEST(EndpointLimitsTest, TheDefaultsAreGood) {
  EXPECT_EQ(StatusAfter([](ChannelOptions&) {}), absl::OkStatus());
}

TEST(EndpointLimitsTest, WhatIsSetArrives) {
  ChannelOptions options;
  options.device = "soft";
  options.max_receive_message_bytes = 1;
  options.max_send_message_bytes = 2;
  options.max_arena_bytes = 3;
  options.spin_budget = absl::Microseconds(4);
  options.memory_floor_bytes = 5;
  options.revoke_leases = true;
  options.memory_idle_time = absl::Seconds(6);
  options.checksum = true;
  options.max_metadata_bytes = 7;
  options.max_concurrent_calls = 8;
  const transport::EndpointOptions endpoint =
      ToEndpointOptions(options).value();
  EXPECT_EQ(endpoint.device, "soft");
  EXPECT_EQ(endpoint.max_receive_message_bytes, 1u);
  EXPECT_EQ(endpoint.max_send_message_bytes, 2u);
  EXPECT_EQ(endpoint.max_arena_bytes, 3u);
  EXPECT_EQ(endpoint.spin_budget, absl::Microseconds(4));
  EXPECT_EQ(endpoint.memory_floor_bytes, 5u);
  EXPECT_TRUE(endpoint.revoke_leases);
  EXPECT_EQ(endpoint.memory_idle_time, absl::Seconds(6));
  EXPECT_TRUE(endpoint.checksum);
  EXPECT_EQ(endpoint.max_metadata_bytes, 7u);
  EXPECT_EQ(endpoint.max_open_calls, 8u);
}

TEST(EndpointLimitsTest, AnInterceptorsFactoryMustNotBeNull) {
  ExpectRefused(StatusAfter([](ChannelOptions& options) {
                  options.interceptors = {nullptr};
                }),
                "interceptors[0] is null, must be a factory");
}

TEST(EndpointLimitsTest, MetadataMayHave65535Bytes) {
  for (const uint32_t bytes : {0u, 65535u, 65536u}) {
    const absl::Status status = StatusAfter([bytes](ChannelOptions& options) {
      options.max_metadata_bytes = bytes;
    });
    if (bytes < 65536) {
      EXPECT_EQ(status, absl::OkStatus());
    } else {
      ExpectRefused(status, "max_metadata_bytes is 65536, must be at most");
    }
  }
}

TEST(EndpointLimitsTest, AChannelMayHaveEightPaths) {
  for (const int paths : {-1, 0, 8, 9}) {
    const absl::Status status = StatusAfter(
        [paths](ChannelOptions& options) { options.max_paths = paths; });
    if (paths == 0 || paths == 8) {
      EXPECT_EQ(status, absl::OkStatus());
    } else {
      ExpectRefused(status, "max_paths is ");
    }
  }
}

TEST(EndpointLimitsTest, AConnectionMayHaveOneCallTo16384) {
  for (const uint32_t calls : {0u, 1u, 16384u, 16385u}) {
    const absl::Status status = StatusAfter([calls](ChannelOptions& options) {
      options.max_concurrent_calls = calls;
    });
    if (calls == 1 || calls == 16384) {
      EXPECT_EQ(status, absl::OkStatus());
    } else {
      ExpectRefused(status, "max_concurrent_calls is ");
    }
  }
}

TEST(EndpointLimitsTest, MessagesBeyondProtobufsReachAreRefused) {
  ExpectRefused(StatusAfter([](ChannelOptions& options) {
                  options.max_send_message_bytes = uint64_t{1} << 31;
                }),
                "max_send_message_bytes");
  ExpectRefused(StatusAfter([](ChannelOptions& options) {
                  options.max_receive_message_bytes = UINT64_MAX - 1;
                }),
                "max_receive_message_bytes");
}

TEST(EndpointLimitsTest, MinusOneIsTheLongestMessageThatThereCanBe) {
  ChannelOptions options;
  options.max_send_message_bytes = -1;
  options.max_receive_message_bytes = -1;
  const absl::StatusOr<transport::EndpointOptions> endpoint =
      ToEndpointOptions(options);
  ASSERT_EQ(endpoint.status(), absl::OkStatus());
  EXPECT_EQ(endpoint->max_send_message_bytes, uint64_t{INT_MAX});
  EXPECT_EQ(endpoint->max_receive_message_bytes, uint64_t{INT_MAX});
  EXPECT_EQ(transport::CheckOptions(*endpoint), absl::OkStatus());
}

TEST(EndpointLimitsTest, MemoryFollowsTheLimitsOfMessagesUnlessItIsSet) {
  constexpr uint64_t kGiga = uint64_t{1} << 30;
  ChannelOptions options;
  EXPECT_EQ(ToEndpointOptions(options)->max_arena_bytes, kGiga / 2);
  options.max_send_message_bytes = kGiga;
  options.max_receive_message_bytes = kGiga;
  const absl::StatusOr<transport::EndpointOptions> endpoint =
      ToEndpointOptions(options);
  ASSERT_EQ(endpoint.status(), absl::OkStatus());
  EXPECT_EQ(endpoint->max_arena_bytes, 4 * kGiga);
  EXPECT_EQ(transport::CheckOptions(*endpoint), absl::OkStatus());
  options.max_arena_bytes = 3 * kGiga;
  EXPECT_EQ(ToEndpointOptions(options)->max_arena_bytes, 3 * kGiga);
}

TEST(EndpointLimitsTest, ArenasThatCannotHoldTheLargestCallAreRefused) {
  ExpectRefused(StatusAfter([](ChannelOptions& options) {
                  options.max_arena_bytes = options.max_send_message_bytes;
                }),
                "max_arena_bytes");
}

TEST(EndpointLimitsTest, DurationsThatMakeNoSenseAreRefused) {
  ExpectRefused(StatusAfter([](ChannelOptions& options) {
                  options.spin_budget = -absl::Nanoseconds(1);
                }),
                "spin_budget");
  ExpectRefused(StatusAfter([](ChannelOptions& options) {
                  options.connect_timeout = absl::ZeroDuration();
                }),
                "connect_timeout");
  ExpectRefused(StatusAfter([](ChannelOptions& options) {
                  options.memory_idle_time = absl::ZeroDuration();
                }),
                "memory_idle_time");
  ExpectRefused(StatusAfter([](ChannelOptions& options) {
                  options.max_backoff = options.initial_backoff / 2;
                }),
                "max_backoff");
}

}  // namespace
}  // namespace verbena::internal
