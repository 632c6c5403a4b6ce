// Options of a user: those that are accepted make limits that a peer accepts.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tests/fuzz/fuzz_input.h"
#include "transport/base/check.h"
#include "transport/base/endpoint_options.h"
#include "transport/session/connection.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

// Draws a duration of any kind: long, short, negative or infinite.
absl::Duration Time(fuzz::FuzzInput& input) {
  switch (input.Below(4)) {
    case 0:
      return absl::InfiniteDuration();
    case 1:
      return -absl::InfiniteDuration();
    case 2:
      return absl::Nanoseconds(input.Take<int64_t>());
    default:
      return absl::Seconds(input.Take<int64_t>());
  }
}

void Check(fuzz::FuzzInput input) {
  EndpointOptions options;
  options.max_receive_message_bytes = input.Take<uint64_t>();
  options.max_send_message_bytes = input.Take<uint64_t>();
  options.max_arena_bytes = input.Take<uint64_t>();
  options.max_bulk_bytes = input.Take<uint64_t>();
  options.memory_floor_bytes = input.Take<uint64_t>();
  options.continued_bytes_max = input.Take<uint32_t>();
  options.memory_idle_time = Time(input);
  options.spin_budget = Time(input);
  options.connect_timeout = Time(input);
  options.keepalive_time = Time(input);
  options.keepalive_timeout = Time(input);
  options.stall_timeout = Time(input);
  options.device = std::string(fuzz::AsText(input.Rest()));
  if (!CheckOptions(options).ok()) return;
  const std::string reply =
      EncodeConnectReply({Connection::OwnLimits(options)});
  const auto decoded = DecodeConnectReply(
      {reinterpret_cast<const uint8_t*>(reply.data()), reply.size()});
  CHECK(decoded.ok()) << decoded.status().ToString();
}

}  // namespace
}  // namespace verbena::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::transport::Check({data, size});
  return 0;
}
